"""The statements of ``sql/eventstore``, written for schema ``public`` and one tenant, for any schema and tenant.

Values are always bound. Names cannot be, nor can the bounds of a partition: these few tokens are replaced in the text,
quoted, and by nothing that was not checked first.
"""

from __future__ import annotations

from typing import Final, LiteralString
from uuid import UUID

from relay.postgres.sql import DEFAULT_SCHEMA, Name, checked_schema, sql_root, statement, without_parameters

__all__ = ["DEFAULT_SCHEMA", "EventStoreStatements"]

_TENANT: Final = "00000000-0000-0000-0000-000000000000"
_TENANT_PARTITION: Final = "event_00000000000000000000000000000000"
_BUCKET: Final = "event_tenants_00"
_ROLE: Final = "app_role"


class EventStoreStatements:
    """The statements for one schema."""

    def __init__(self, schema: str = DEFAULT_SCHEMA) -> None:
        self.schema = checked_schema(schema)

    def text(self, path: str) -> LiteralString:
        """One file's statement, for example ``queries/append.sql``."""
        return self._named(path, {})

    def for_tenant(self, path: str, tenant_id: UUID, bucket: str = "00") -> LiteralString:
        """A statement that names one tenant's partition and the bucket it hangs in."""
        names: dict[str, Name] = {
            _TENANT: tenant_id,
            _TENANT_PARTITION: f"event_{tenant_id.hex}",
            _BUCKET: f"event_tenants_{bucket}",
        }
        return self._named(path, names)

    def for_role(self, path: str, role: str) -> LiteralString:
        """A statement that grants something to a role; it is sent without parameters."""
        return without_parameters(self._named(path, {_ROLE: role}))

    def folder(self, name: str, role: str = _ROLE) -> list[LiteralString]:
        """The numbered statements of one folder, in their order."""
        files = sorted((sql_root() / "eventstore" / name).glob("[0-9]*.sql"))
        return [self.for_role(f"{name}/{file.name}", role) for file in files]

    def _named(self, path: str, names: dict[str, Name]) -> LiteralString:
        return statement(f"eventstore/{path}", names={DEFAULT_SCHEMA: self.schema, **names})
