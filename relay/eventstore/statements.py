"""The statements of ``sql/eventstore``, written for schema ``public`` and one tenant, for any schema and tenant.

Values are always bound. Names cannot be, nor can the bounds of a partition: those few tokens are replaced in the text,
quoted, and by nothing that was not checked first.
"""

from __future__ import annotations

import re
from typing import Final, LiteralString
from uuid import UUID

from relay.core.sqltext import quote_identifier, sql_root
from relay.core.storesql import DEFAULT_SCHEMA, checked_schema, store_statement

__all__ = ["DEFAULT_SCHEMA", "Statements"]

_TENANT_HEX: Final = "0" * 32
_TENANT_TEXT: Final = "00000000-0000-0000-0000-000000000000"
_BUCKET: Final = re.compile(r"\bevent_tenants_00\b")
_ROLE: Final = re.compile(r"\bapp_role\b")


class Statements:
    """The statements for one schema."""

    def __init__(self, schema: str = DEFAULT_SCHEMA) -> None:
        self.schema = checked_schema(schema)

    def text(self, path: str) -> LiteralString:
        """One file's statement, for example ``queries/append.sql``."""
        return store_statement(path, self.schema)

    def for_tenant(self, path: str, tenant_id: UUID, bucket: str = "00") -> LiteralString:
        """A statement that names one tenant's partition and the bucket it hangs in."""
        text = self.text(path).replace(_TENANT_HEX, tenant_id.hex).replace(_TENANT_TEXT, str(tenant_id))
        return _BUCKET.sub(f"event_tenants_{bucket}", text)

    def for_role(self, path: str, role: str) -> LiteralString:
        """A statement that grants something to a role."""
        return _ROLE.sub(lambda _: quote_identifier(role), self.text(path))

    def folder(self, name: str, role: str = "app_role") -> list[LiteralString]:
        """The numbered statements of one folder, in their order."""
        found = sorted((sql_root() / "eventstore" / name).glob("[0-9]*.sql"))
        return [self.for_role(f"{name}/{path.name}", role) for path in found]
