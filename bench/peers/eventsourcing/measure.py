"""Callers and clocks: what ../../driver/src/measure.rs does. A caller is a thread."""

import math
from collections.abc import Callable
from itertools import count
from threading import Thread
from time import monotonic, sleep
from typing import Any
from uuid import UUID, uuid4

from payload import placed
from store import Store

# A writer of `write` begins a new stream after so many events: some stores load a stream to append to it.
STREAM_MAX = 20
# How many callers send at a steady rate, at most.
SENDERS_MAX = 64

Answer = dict[str, Any]


class Window:
    """When something counts: what has ended between the two."""

    def __init__(self, warm_up: float, seconds: float) -> None:
        self.begin = monotonic() + warm_up
        self.end = self.begin + seconds

    def is_over(self) -> bool:
        return monotonic() >= self.end

    def counts(self) -> bool:
        return self.begin <= monotonic() < self.end


def _always() -> Window:
    return Window(0, math.inf)


class Calls:
    """What one caller did."""

    def __init__(self) -> None:
        # Those that count, and all of them.
        self.events = 0
        self.stored = 0
        self.attempts = 0
        self.failed = 0
        self.failure: str | None = None
        self.acknowledged: list[tuple[int, int]] = []

    def append(self, store: Store, window: Window, stream: UUID, version: int, orders: list[dict[str, Any]]) -> bool:
        """Appends, and says whether it was done."""
        self.attempts += 1
        try:
            store.append(stream, version, orders)
        except Exception as error:
            self.failed += 1
            self.failure = self.failure or str(error)
            return False
        self.stored += len(orders)
        if window.counts():
            self.events += len(orders)
        return True


def _all(callers: int, started: float, caller: Callable[[Calls, int], None]) -> Answer:
    """Runs so many callers at once; everything that they did, until the last of them had returned."""
    done = [Calls() for _ in range(callers)]
    threads = [Thread(target=caller, args=(calls, number)) for number, calls in enumerate(done)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = {
        "events": sum(calls.events for calls in done),
        "seconds": monotonic() - started,
        "attempts": sum(calls.attempts for calls in done),
        "failed": sum(calls.failed for calls in done),
    }
    if failure := next((calls.failure for calls in done if calls.failure), None):
        answer["failure"] = failure
    if acknowledged := [event for calls in done for event in calls.acknowledged]:
        answer["acknowledged"] = acknowledged
    return answer


def _orders(caller: int, first: int, number: int) -> list[dict[str, Any]]:
    return [placed(caller, n) for n in range(first, first + number)]


def append(store: Store, callers: int, events: int, warm_up: float, seconds: float) -> Answer:
    window = Window(warm_up, seconds)

    def caller(calls: Calls, number: int) -> None:
        while not window.is_over():
            calls.append(store, window, uuid4(), 0, _orders(number, calls.stored, events))

    return {**_all(callers, monotonic(), caller), "seconds": seconds}


def fill(store: Store, streams: int, events: int, callers: int) -> Answer:
    window = _always()

    def caller(calls: Calls, number: int) -> None:
        for _ in range(number, streams, callers):
            if not calls.append(store, window, uuid4(), 0, _orders(number, calls.stored, events)):
                break

    filled = _all(callers, monotonic(), caller)
    if "failure" in filled:
        raise RuntimeError(filled["failure"])
    return filled


def make_stream(store: Store, events: int) -> UUID:
    """A new stream for `load`."""
    stream = uuid4()
    for version in range(0, events, 100):
        store.append(stream, version, _orders(0, version, min(100, events - version)))
    return stream


def load(store: Store, stream: UUID, events: int, warm_up: float, seconds: float) -> Answer:
    window, counted = Window(warm_up, seconds), 0
    while not window.is_over():
        loaded = store.load(stream)
        if loaded != events:
            raise RuntimeError(f"a stream of {events} events was loaded with {loaded}")
        if window.counts():
            counted += events
    return {"events": counted, "seconds": seconds, "failed": 0}


def send(store: Store, rate: float, seconds: float) -> Answer:
    """One event at a time is due, and its caller sends it: a slow store sends later than asked, and says how many."""
    started, total, window = monotonic(), round(rate * seconds), _always()
    senders = min(max(math.ceil(rate / 10), 1), SENDERS_MAX)

    def caller(calls: Calls, sender: int) -> None:
        for number in range(sender, total, senders):
            sleep(max(0.0, started + number / rate - monotonic()))
            # Behind by more than a second at the end: no use in continuing.
            if monotonic() - started > seconds + 1:
                break
            calls.append(store, window, uuid4(), 0, _orders(sender, number, 1))

    return _all(senders, started, caller)


def write(store: Store, writers: int, events: int, seconds: float) -> Answer:
    started, window, done = monotonic(), _always(), []

    def caller(calls: Calls, writer: int) -> None:
        stream, version = uuid4(), 0
        for number in count():
            if monotonic() - started >= seconds or len(done) >= events:
                break
            if version == STREAM_MAX:
                stream, version = uuid4(), 0
            if calls.append(store, window, stream, version, _orders(writer, number, 1)):
                version += 1
                done.append(number)
                calls.acknowledged.append((writer, number))

    return _all(writers, started, caller)
