"""What every request of the console needs: where the outbox is, what runs, and what may be seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from relay.app.duplicates import duplicate_window
from relay.console.access import AccessRole, Identity
from relay.console.jobs import ChangeJobs
from relay.console.readings import Readings
from relay.console.stores import LogAccess, StoreAccess
from relay.postgres.sql import TableName
from relay.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Console:
    """The console's parts that live as long as its process."""

    settings: Settings
    url: str
    table: TableName
    jobs: ChangeJobs
    log: LogAccess
    store: StoreAccess
    readings: Readings
    parts: dict[tuple[str, AccessRole], tuple[object, str]] = field(default_factory=dict)
    """Of the part of each live page, by name and role: the reading that it was last rendered from, and its digest."""

    @classmethod
    def of(cls, settings: Settings) -> Console:
        """Raises ConfigError without STORAGE_URL."""
        url = settings.required("STORAGE_URL")
        table = settings.storage_table_name
        log, store = LogAccess(settings), StoreAccess(url, settings)
        readings = Readings(url, table, store.schema)
        return cls(settings, url, table, ChangeJobs(url, table), log, store, readings)

    def duplicate_window(self) -> float:
        """Seconds for which the broker drops a repeated event. Raises BrokerUnreachable when NATS does not answer."""
        return duplicate_window(self.settings)


def console_of(request: Request) -> Console:
    """The console that serves this request."""
    console: Console = request.app.state.console
    return console


def shows_payloads(identity: Identity) -> bool:
    """Whether this identity may see payloads and headers."""
    return identity.role >= AccessRole.OPERATOR


async def _console(request: Request) -> Console:
    return console_of(request)  # a dependency that is no coroutine would need a thread


ConsoleParts = Annotated[Console, Depends(_console)]
