"""The statements of ``sql/eventstore``, written for schema ``public`` and one tenant, for any schema and tenant.

Values are always bound. Names and partition bounds cannot be bound: these few tokens are replaced in the statement by
quoted names, which were checked first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, LiteralString
from uuid import UUID

from relay.postgres.sql import (
    DEFAULT_SCHEMA,
    DEFAULT_TABLE,
    Name,
    TableName,
    checked_schema,
    statement,
    statement_names,
    without_parameters,
)

__all__ = ["DEFAULT_SCHEMA", "EventStoreStatements"]

_TENANT: Final = "00000000-0000-0000-0000-000000000000"
_TENANT_PARTITION: Final = "event_00000000000000000000000000000000"
_BUCKET: Final = "event_tenants_00"
_ROLE: Final = "app_role"
_RECORD: Final = {"schema_migration": "event_migration"}
"""The name of the record of migrations, in its place for this room."""


class EventStoreStatements:
    """The statements for one schema."""

    def __init__(self, schema: str = DEFAULT_SCHEMA) -> None:
        self.schema = checked_schema(schema)

    @property
    def record_names(self) -> dict[str, Name]:
        """The schema and the name of the record of migrations."""
        return {DEFAULT_SCHEMA: self.schema, **_RECORD}

    def text(self, path: str, *tags: str) -> LiteralString:
        """One statement, for example ``eventstore/append:append``, in the variant of ``tags``."""
        return self._named(path, {}, *tags)

    def for_tenant(self, path: str, tenant_id: UUID, bucket: str = "00") -> LiteralString:
        """A statement that names one tenant's partition and the bucket that it is attached to."""
        names: dict[str, Name] = {
            _TENANT: tenant_id,
            _TENANT_PARTITION: f"event_{tenant_id.hex}",
            _BUCKET: f"event_tenants_{bucket}",
        }
        return self._named(path, names)

    def fetch_from(self, tenants: Iterable[UUID], *tags: str) -> LiteralString:
        """``fetch_page`` with these tenants as constants, to be prepared."""
        constant = "'{" + ",".join(map(str, tenants)) + "}'"
        return self.text("eventstore/read:fetch_page", *tags).replace("%(tenants)s", constant)

    def announcing(self, table: TableName, variant: str) -> LiteralString:
        """The append that announces in the outbox ``table``, ``plain`` or ``once``."""
        return self._named("eventstore/append:append_and_announce", {DEFAULT_TABLE: table}, variant)

    def definition(self, path: str, *tags: str, role: str = _ROLE) -> LiteralString:
        """A statement that creates an object or grants rights to a role; it is sent without parameters."""
        return without_parameters(self._named(path, {_ROLE: role}, *tags))

    def definitions(self, file: str, *tags: str, role: str = _ROLE) -> list[LiteralString]:
        """All statements of a file in their order, for example of ``eventstore/schema``."""
        return [self.definition(f"{file}:{name}", *tags, role=role) for name in statement_names(file)]

    def _named(self, path: str, names: dict[str, Name], *tags: str) -> LiteralString:
        return statement(path, names={DEFAULT_SCHEMA: self.schema, **names}, tags=tags)
