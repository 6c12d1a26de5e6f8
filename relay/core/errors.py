"""The one error tree of the project.

    OutboxError
    ├── ConfigError                 a setting is wrong; says which, and what to do
    ├── StorageError
    │   ├── StorageUnavailable      the database does not answer, is starting, read-only or shutting down
    │   │   ├── StorageTimeout      a statement passed its deadline and was cut off
    │   │   └── StorageRefuses      the database answers a ping, and cannot do the work: disk full, out of memory, I/O
    │   ├── StorageBusy             the statement lost a race (deadlock, serialization, lock or statement timeout)
    │   ├── RowRefused              a constraint or trigger refuses one row; the other rows can be written
    │   └── SchemaError             the table is missing, partitioned, differs from the contract, or is not granted
    ├── PublisherError              the publisher failed as a whole, not on a single event
    │   └── BrokerUnreachable       a probe got no answer
    │       ├── BrokerRefused       it was the login, or the TLS handshake, that was refused
    │       └── TooManyConnections  RabbitMQ allows no connection more (relay.brokers.rabbitmq.wire)
    ├── Cut, NoAnswer, BadAnswer    one request of a webhook (relay.brokers.http.errors)
    ├── UnsendableHeader            a header of a request would end its line (relay.brokers.http.headers)
    ├── ServerClosed                RabbitMQ closed a channel or the connection (relay.brokers.rabbitmq.wire)
    ├── LoopDied                    a loop of the relay ended on its own (relay.engine.relay)
    ├── ReplayRefused               a replay would be swallowed by the broker (relay.outbox.admin.replay)
    ├── EventMissing, EventMoved, ActionRefused     an action on one event (relay.outbox.admin.actions)
    ├── RecordMissing, KeyReused    the record of changes (relay.outbox.admin.changes)
    ├── CursorRefused               a search goes on from an invalid cursor (relay.outbox.admin.search)
    ├── RequestProblem              the console refuses a request (relay.console.problems)
    │   └── AccessRefused           its sender may not come in, or not from there (relay.console.access.refusal)
    ├── ProviderFailed, UserRefused     a login at an OIDC provider (relay.console.access.provider)
    ├── EventStoreError             the event store
    │   ├── PositionsWentBack       what was read at a position is not in the store any more
    │   ├── VersionConflict, EventIdConflict, UndecodableEvent      of a stream (relay.eventstore.errors)
    │   ├── UnknownTenant, TenantBusy                               of a tenant (relay.eventstore.errors)
    │   └── SubscriptionLost, SubscriptionDeleted                   of a subscription (relay.eventstore.errors)
    ├── DeliveryLogError            the delivery log (relay.deliverylog.errors)
    │   ├── DeliveryLogUnavailable  the log's database does not answer, or its folder is in use
    │   ├── DeliveryLogBusy         the log's database rolled a statement back (deadlock, lock or statement timeout)
    │   ├── InvalidEntry, InvalidCursor, VersionMismatch, InvalidTimeRange, InvalidQuery    the request is invalid
    │   └── ResourceLimit           the answer would be too large
    ├── ArchiveError                an archive's folder, or what is in it (relay.spark.jobs.errors)
    ├── ConnectError                a Spark Connect server does not answer (relay.spark.jobs.session)
    ├── ServerFailed                a server on loopback did not start (relay.localservers.process)
    ├── EnqueueRefused              an application announced events on a connection that would commit them alone
    ├── InboxRefused                a consumer called the inbox with what cannot keep its promise
    ├── MessageError                a consumer got a message that no relay sent in its default format
    └── EventError                  an application passed an invalid event

``exit_code`` and ``error_lines`` turn an error into what a command of this project returns and prints.

Messages never contain a secret. A room that adds a class derives it from one of these and adds it to this drawing;
only a class that its own module alone raises and catches has an underscore instead.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Final

from openoutbox.errors import (
    ConfigError,
    EventError,
    InboxRefused,
    OutboxError,
    RowRefused,
    SchemaError,
    StorageBusy,
    StorageError,
    StorageRefuses,
    StorageUnavailable,
)

__all__ = [
    "BrokerRefused",
    "BrokerUnreachable",
    "ConfigError",
    "EventError",
    "EventStoreError",
    "InboxRefused",
    "OutboxError",
    "PositionsWentBack",
    "PublisherError",
    "RowRefused",
    "SchemaError",
    "StorageBusy",
    "StorageError",
    "StorageRefuses",
    "StorageTimeout",
    "StorageUnavailable",
    "error_lines",
    "exit_code",
    "reason_of",
]

_ERRNO: Final = re.compile(r"\[Errno -?\d+\] ")


class StorageTimeout(StorageUnavailable):
    """A statement passed its deadline and was cut off: a smaller one may get through."""

    server_answers = False
    """Whether the server took the cancellation of the statement: then the statement is slow, not the network."""

    @property
    def may_blame_row(self) -> bool:
        """A row whose trigger is slow stops every statement that it is in."""
        return self.server_answers


class PublisherError(OutboxError):
    """The publisher failed as a whole, not on a single event."""


class BrokerUnreachable(PublisherError):
    """The broker gave no answer in time, or refused the login or TLS handshake; the message says which."""

    setting = "PUBLISHER_URL"


class BrokerRefused(BrokerUnreachable):
    """The broker answered, and refused the login or the TLS handshake."""


class EventStoreError(OutboxError):
    """Base of the event store's own errors."""


class PositionsWentBack(EventStoreError):
    """The store no longer holds what was read at a position: it was restored to an earlier time, or lost its end.

    Reading on from there would skip the events that take the positions again. docs/operate/restore.md says what to do.
    """

    def __init__(self, position: int, newest: int) -> None:
        super().__init__(
            f"position {position}: "
            + ("there is not the event that was read there" if position <= newest else "the store does not have it")
            + f"; its newest position is {newest}. Was the store restored to an earlier time, or did it lose its "
            "newest events in a failover? Decide where to continue (docs/operate/restore.md), and read from there"
        )
        self.position = position
        """The position that was read, as far as the reader knows."""
        self.newest = newest
        """The newest position that the store has assigned."""

    def __reduce__(self) -> tuple[type[PositionsWentBack], tuple[int, int]]:
        return PositionsWentBack, (self.position, self.newest)


def reason_of(error: Exception) -> str:
    """Why an operation failed, without the numbers and Python terms in which the system reports it."""
    if isinstance(error, OSError) and (error.errno or 0) >= errno.ENETDOWN:  # asyncio's own text has the address
        return os.strerror(error.errno or 0)
    return _ERRNO.sub("", str(error)) or type(error).__name__


def exit_code(error: OutboxError) -> int:
    """The exit code of a command that ended with ``error``: 2 for what the user wrote (a setting, a value), else 1."""
    return 2 if isinstance(error, ConfigError | ValueError) else 1


def error_lines(error: OutboxError) -> list[str]:
    """What the user reads: what failed and why, then a line for each step that helps."""
    text = f"{error}: {error.reason}" if error.reason else str(error)
    lines = [_ERRNO.sub("", text)]
    if not error.setting:
        return [*lines, error.advice] if error.advice else lines
    lines.append(f"check {error.setting}: {error.advice or 'host, port, user, password, and that the server runs'}")
    if error.setting != "DELIVERY_LOG_URL":
        lines.append("relay-cli check examines the settings, the table and the broker")
    return lines
