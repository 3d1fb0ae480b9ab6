"""A contestant's process: what ../../driver/src/serve.rs does."""

import json
import sys
from threading import Thread
from time import monotonic
from typing import Any, TextIO
from uuid import UUID

import measure
from sink import Sink
from store import Store, prepare

# How long a follower may take to end before nobody waits for it any longer, in seconds.
PATIENCE = 10.0

NOTHING = {"events": 0, "seconds": 0.0, "failed": 0}


def say(answers: TextIO, what: Any) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


def serve(url: str, settings: dict[str, Any], answers: TextIO) -> None:
    contestant = Contestant(url, settings)
    for line in sys.stdin:
        ask = json.loads(line)
        answer = getattr(contestant, "do_" + ask.pop("do"))
        try:
            say(answers, answer(**ask))
        except Exception as error:
            say(answers, {**NOTHING, "error": str(error)})


class Following:
    """A subscriber in a thread of its own."""

    def __init__(self, store: Store, id: str, sink: Sink) -> None:
        self.sink = sink
        self.error: BaseException | None = None
        self.thread = Thread(target=self._follow, args=(store, id), daemon=True)
        self.thread.start()

    def _follow(self, store: Store, id: str) -> None:
        try:
            store.follow(id, self.sink)
        except BaseException as error:
            self.error = error
        finally:
            self.sink.reached.set()

    def end(self) -> None:
        """Lets it end by itself, if it does."""
        self.sink.stopped.set()
        self.thread.join(PATIENCE)
        if self.error:
            raise self.error


class Contestant:
    """A method for each question."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self._url = url
        self._settings = settings
        self._opened: Store | None = None
        self._stream: tuple[int, UUID] | None = None
        self._following: Following | None = None

    @property
    def _store(self) -> Store:
        """Opened when it is first needed: there may be nothing to open before."""
        self._opened = self._opened or Store(self._url, self._settings)
        return self._opened

    def do_prepare(self) -> measure.Answer:
        prepare(self._url)
        return NOTHING

    def do_append(self, **ask: Any) -> measure.Answer:
        return measure.append(self._store, **ask)

    def do_fill(self, **ask: Any) -> measure.Answer:
        return measure.fill(self._store, **ask)

    def do_send(self, **ask: Any) -> measure.Answer:
        return measure.send(self._store, **ask)

    def do_write(self, **ask: Any) -> measure.Answer:
        return measure.write(self._store, **ask)

    def do_load(self, events: int, **ask: Any) -> measure.Answer:
        if self._stream is None or self._stream[0] != events:
            self._stream = (events, measure.make_stream(self._store, events))
        return measure.load(self._store, self._stream[1], events, **ask)

    def do_catch_up(self, id: str, delivery: str, events: int, warm_up: float, seconds: float) -> measure.Answer:
        """One new subscriber after the other; how long one takes to end does not count."""
        store, window = self._store, measure.Window(warm_up, seconds)
        counted, took, number = 0, 0.0, 0
        while not window.is_over():
            sink, began, before = Sink.counting(events), monotonic(), 0
            # The name of a table is made of it.
            following = Following(store, f"{id}_{number}".replace("-", "_"), sink)
            if began < window.begin and not sink.reached.wait(window.begin - began):
                began, before = monotonic(), sink.count
            sink.reached.wait(max(0.0, window.end - monotonic()))
            if began >= window.begin:
                counted, took = counted + min(sink.count, events) - before, took + monotonic() - began
            ended = not following.thread.is_alive()
            following.end()
            if ended and sink.count < events:
                raise RuntimeError(f"the subscriber has ended after {sink.count} of {events} events")
            number += 1
        return {**NOTHING, "events": counted, "seconds": took}

    def do_follow(self, id: str, delivery: str) -> measure.Answer:
        self.do_unfollow()
        self._following = Following(self._store, id, Sink.keeping())
        return NOTHING

    def do_delivered(self) -> measure.Answer:
        if not self._following:
            return {"error": "nothing is followed", "events": []}
        following = self._following
        if following.thread.is_alive():
            return {"error": None, "events": following.sink.take()}
        self._following = None
        return {"error": str(following.error or "the subscriber has ended"), "events": following.sink.take()}

    def do_unfollow(self) -> measure.Answer:
        following, self._following = self._following, None
        if following:
            following.end()
        return NOTHING
