"""What the parts of ``EventStore`` have in common: ``relay.eventstore.event_store`` composes it of one a module."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from relay.core.errors import ConfigError
from relay.eventstore.database import Database
from relay.eventstore.statements import EventStoreStatements

Id = UUID | str
LARGEST_LIMIT: Final = 2**31 - 1


class StorePart:
    """The connections and the statements that all parts use."""

    def __init__(self, database: Database, statements: EventStoreStatements, tenant: UUID | None = None) -> None:
        self._database = database
        self._statements = statements
        self._tenant = tenant
        """The one tenant of this object, under row-level security."""


def check_limit(limit: int | None) -> None:
    """Raise ConfigError for a limit below 1 or beyond PostgreSQL's integers; None means no limit."""
    if limit is not None and not 1 <= limit <= LARGEST_LIMIT:
        raise ConfigError(f"limit: {limit}; pass 1 to {LARGEST_LIMIT}")
