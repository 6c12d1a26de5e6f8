"""Who takes part in ``benchmarks.peers``: which table each reads, how it is started, when it has settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

import psycopg

from benchmarks.debezium import TABLE, DebeziumServer, aggregate_type
from benchmarks.filling import UNFINISHED
from benchmarks.process import RelayProcess
from benchmarks.servers import Servers
from benchmarks.writing import PAYLOAD, define_write


class Running(Protocol):
    """A process."""

    @property
    def pid(self) -> int:
        """Its id, and that of its process group."""


class Peer(Protocol):
    """One that carries events from a table to Kafka."""

    name: str
    id_header: str
    """The header of a message that holds the event's id."""

    def prepare(self, servers: Servers, topic: str) -> str:
        """The URL of a new database with the table, and with ``write_event`` for the topic."""

    def start(self, url: str, brokers: str) -> AbstractContextManager[Running]:
        """Start it; ready when the context begins."""

    def settled(self, connection: psycopg.Connection) -> bool:
        """Whether nothing is left to write about the events that the topic holds."""


class ContractRelay:
    """A relay that honours the contract: ours with some settings, or another one."""

    id_header = "X-Event-ID"

    def __init__(self, name: str, settings: Mapping[str, str], command: str = "") -> None:
        """``command`` starts another relay than ours."""
        self.name = name
        self._settings = settings
        self._command = command

    def prepare(self, servers: Servers, topic: str) -> str:
        """A database with an outbox of the contract."""
        url = servers.fresh_table()
        insert = f"""
            INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload)
            VALUES (gen_random_uuid(), '{topic}', 'key-' || n % 1000, convert_to({PAYLOAD}, 'UTF8'))
            RETURNING event_id
        """
        with psycopg.connect(url, autocommit=True) as connection:
            define_write(connection, insert)
        return url

    def start(self, url: str, brokers: str) -> RelayProcess:
        """Start the relay."""
        env = {"STORAGE_URL": url, "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": brokers, "RELAY_ID": "benchmark"}
        return RelayProcess(env | dict(self._settings), self._command)

    def settled(self, connection: psycopg.Connection) -> bool:
        """Whether every row has its final state."""
        return connection.execute(UNFINISHED).fetchone() == (False,)


class Debezium:
    """Debezium Server; its table keeps the rows, as nothing deletes them."""

    id_header = "id"

    def __init__(self, name: str, source: Mapping[str, str], java_options: Sequence[str] = ()) -> None:
        """``source`` holds more properties of the connector."""
        self.name = name
        self._source = source
        self._java_options = java_options

    def prepare(self, servers: Servers, topic: str) -> str:
        """A database with an outbox of the router's columns."""
        url = servers.fresh_database()
        insert = f"""
            INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
            VALUES (gen_random_uuid(), '{aggregate_type(topic)}', 'key-' || n % 1000, 'created', ({PAYLOAD})::jsonb)
            RETURNING id
        """
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(TABLE)
            define_write(connection, insert)
        return url

    def start(self, url: str, brokers: str) -> DebeziumServer:
        """Start it."""
        return DebeziumServer(url, brokers, self._source, self._java_options)

    def settled(self, connection: psycopg.Connection) -> bool:  # noqa: ARG002  # a log's reader writes nothing there
        """Always: it keeps a position in the log, which it writes before the next batch."""
        return True


_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "openoutbox": {},
    "openoutbox-1000": {"BATCH_SIZE": "1000"},
    "openoutbox-1000-delete": {"BATCH_SIZE": "1000", "ON_DELIVERED": "delete"},
}
PEERS: Final[Mapping[str, Peer]] = {
    **{name: ContractRelay(name, settings) for name, settings in _SETTINGS.items()},
    "debezium": Debezium("debezium", {}),
    "debezium-tuned": Debezium("debezium-tuned", {"poll.interval.ms": "5"}, ["-Xmx256m"]),
}
"""By name. Debezium's connector waits up to 500 ms for more events, and Java's heap may take a quarter of the memory;
tuned, they are a relay's first wait and 256 MiB."""
