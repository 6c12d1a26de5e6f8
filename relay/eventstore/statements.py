"""The statements of ``sql/eventstore``, written for schema ``public`` and one tenant, for any schema and tenant.

Values are always bound. Names cannot be, nor can the bounds of a partition: those few tokens are replaced in the text,
quoted, and by nothing that was not checked first.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, LiteralString
from uuid import UUID

from relay.core.errors import ConfigError
from relay.core.sqltext import load_sql, quote_identifier, sql_root

DEFAULT_SCHEMA: Final = "public"

_SCHEMA_NAME: Final = re.compile(r"\bpublic(?=\.)|(?<=SCHEMA )public\b|(?<=EXISTS )public\b")
_LONGEST_IDENTIFIER: Final = 63  # bytes; PostgreSQL silently cuts longer names
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
        return _for_schema(path, self.schema)

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


def checked_schema(schema: str) -> str:
    """The name; raises ConfigError for one that cannot stand in quotes of both kinds, where the statements need it."""
    bad = not schema or len(schema.encode()) > _LONGEST_IDENTIFIER or re.search(r"""['"\\$%.\x00]""", schema)
    if bad:
        raise ConfigError(
            f"schema: {schema!r} is not usable; pass a name of 1 to 63 bytes without quotes, dots, $, % and backslashes"
        )
    return schema


@lru_cache(maxsize=1024)
def _for_schema(path: str, schema: str) -> LiteralString:
    """It may pass for a literal: the text comes from a file of this project, and the inserted name is quoted."""
    text = load_sql(f"eventstore/{path}")
    return text if schema == DEFAULT_SCHEMA else _SCHEMA_NAME.sub(lambda _: quote_identifier(schema), text)
