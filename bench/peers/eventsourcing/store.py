"""The library eventsourcing with its PostgreSQL recorders, as its documentation says that it is used."""

import platform
from pathlib import Path
from typing import Any
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.domain import DomainEvent
from eventsourcing.persistence import Tracking
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.conninfo import conninfo_to_dict

from sink import Sink


def about() -> dict[str, Any]:
    pinned = Path(__file__).with_name("requirements.txt").read_text().splitlines()
    packages = [line.replace("==", " ") for line in pinned if line.startswith(("eventsourcing", "psycopg-binary"))]
    return {
        "name": "eventsourcing",
        "versions": ", ".join([*packages, f"Python {platform.python_version()}"]),
        "page": 'eventsourcing.readthedocs.io, "Applications", "Persistence", "Projections" (9.5)',
        "documented": "Application.save with its defaults: a pool of 5 connections, and 10 more when they are needed; a thread "
        "per caller",
        "fastest": "POSTGRES_ENABLE_DB_FUNCTIONS: appends by a function in the database, which does not lock the table; the best "
        "of several pool sizes",
        "pools": [8, 15, 32, 64],
        "deliveries": {
            "once": "a transaction for each event, with its tracking record in it; a crash of the server undoes nothing",
        },
        "no_follower": None,
        "no_failover": "two runners of one projection both process every event, until the later one ends with an "
        "IntegrityError",
        "tables": ["orders_events"],
        "notes": [
            "by default an append locks the table of events until its commit, which keeps their order; at its best it "
            "does not, and events of appends at the same time may never be handed over",
            "its projection stores where it is in a transaction for each event",
            "an append is repeated by the library, up to 10 times, if its connection fails",
            "Python's threads use one core at a time",
        ],
        "objection": "One process of Python is one core: its users run several. And its applications save aggregates, which is more "
        "than the events that are saved here.",
    }


class Placed(DomainEvent):
    """An order, which is the event of a stream of orders."""

    order_id: UUID
    customer: str
    amount: int
    currency: str
    lines: list[dict[str, Any]]
    note: str


class Orders(Application[UUID]):
    """The events are its domain model; it appends and reads them."""

    def place(self, stream: UUID, version: int, orders: list[dict[str, Any]]) -> None:
        # Two events with the same id and version are refused: that is the library's check.
        self.save(
            *(
                Placed(originator_id=stream, originator_version=number, timestamp=Placed.create_timestamp(), **order)
                for number, order in enumerate(orders, version + 1)
            )
        )

    def placed(self, stream: UUID) -> list[Placed]:
        return list(self.events.get(stream))


def _environment(url: str) -> dict[str, str]:
    parts = conninfo_to_dict(url)
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": parts["dbname"],
        "POSTGRES_HOST": parts["host"],
        "POSTGRES_PORT": str(parts.get("port", 5432)),
        "POSTGRES_USER": parts["user"],
        "POSTGRES_PASSWORD": parts.get("password", ""),
    }


def prepare(url: str) -> None:
    """The first process that opens an application makes its tables."""
    Orders(_environment(url)).close()


class Store:
    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self._environment = _environment(url)
        if settings["way"] == "fastest":
            self._environment["POSTGRES_ENABLE_DB_FUNCTIONS"] = "y"
        pool = {}
        if connections := settings.get("connections"):
            pool = {"POSTGRES_POOL_SIZE": str(connections), "POSTGRES_MAX_OVERFLOW": "0"}
        self._orders = Orders({**self._environment, **pool})

    def append(self, stream: UUID, version: int, orders: list[dict[str, Any]]) -> None:
        """Stores events, durably, before it returns."""
        self._orders.place(stream, version, orders)

    def load(self, stream: UUID) -> int:
        """Loads a stream, with every event decoded, and says how many there were."""
        return len(self._orders.placed(stream))

    def follow(self, id: str, sink: Sink) -> None:
        """Hands every event to the sink, from its tracking record on, until the sink is stopped."""

        class Handing(Projection[PostgresTrackingRecorder]):
            # Its tracking table is named after it.
            name = id

            def process_event(self, event: Placed, tracking: Tracking) -> None:
                sink.handle(event.order_id, event.amount, tracking.notification_id)
                self.view.insert_tracking(tracking)

        with ProjectionRunner(
            application_class=Orders,
            projection_class=Handing,
            view_class=PostgresTrackingRecorder,
            env=self._environment,
        ) as runner:
            while not sink.stopped.is_set() and not runner.is_interrupted.is_set():
                runner.run_forever(timeout=0.1)
        runner.view.datastore.close()
