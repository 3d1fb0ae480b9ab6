"""What a subscriber hands its events to."""

import math
from threading import Event, Lock
from uuid import UUID

from payload import now_micros, origin


class Sink:
    """Counts events or writes them down, and says when it is enough."""

    def __init__(self, enough: float, keeps: bool) -> None:
        self.count = 0
        self.stopped = Event()
        # A caller waits for it: so many events are there, or the subscriber has ended.
        self.reached = Event()
        self._enough = enough
        self._keeps = keeps
        self._kept: list[tuple[int, ...]] = []
        self._lock = Lock()

    @classmethod
    def counting(cls, enough: int) -> "Sink":
        """Counts, and can be waited for until it has so many."""
        return cls(enough, keeps=False)

    @classmethod
    def keeping(cls) -> "Sink":
        """Writes down what it is handed."""
        return cls(math.inf, keeps=True)

    def handle(self, order_id: UUID, made: int, position: int) -> None:
        """One event: whose it is, when it was made, and its position in the log (0 where the store has none)."""
        if self._keeps:
            event = (*origin(order_id), position, made, now_micros())
            with self._lock:
                self._kept.append(event)
        self.count += 1
        if self.count == self._enough:
            self.reached.set()

    def take(self) -> list[tuple[int, ...]]:
        with self._lock:
            kept, self._kept = self._kept, []
        return kept
