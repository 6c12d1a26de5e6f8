"""The event store's SQL for a schema: what ``relay.eventstore`` and Spark's reader of it have in common.

The files under ``sql/eventstore`` are written for schema ``public``. Values are always bound; a schema's name cannot
be, and is replaced in the text, quoted.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, LiteralString

from relay.core.errors import ConfigError
from relay.core.sqltext import load_sql, quote_identifier

DEFAULT_SCHEMA: Final = "public"
TENANTS_AT_ONCE: Final = 20
"""Tenants of one statement that fetches events; measured: planning grows faster than the number of partitions."""

_SCHEMA_NAME: Final = re.compile(r"\bpublic(?=\.)|(?<=SCHEMA )public\b|(?<=EXISTS )public\b")
_LONGEST_IDENTIFIER: Final = 63  # bytes; PostgreSQL silently cuts longer names


def checked_schema(schema: str) -> str:
    """The name; raises ConfigError for one that cannot stand in quotes of both kinds, where the statements need it."""
    bad = not schema or len(schema.encode()) > _LONGEST_IDENTIFIER or re.search(r"""['"\\$%.\x00]""", schema)
    if bad:
        raise ConfigError(
            f"schema: {schema!r} is not usable; pass a name of 1 to 63 bytes without quotes, dots, $, % and backslashes"
        )
    return schema


@lru_cache(maxsize=1024)
def store_statement(path: str, schema: str) -> LiteralString:
    """One file's statement, for example ``queries/horizon.sql``, for a schema that was checked.

    It may pass for a literal: the text comes from a file of this project, and the inserted name is quoted.
    """
    text = load_sql(f"eventstore/{path}")
    return text if schema == DEFAULT_SCHEMA else _SCHEMA_NAME.sub(lambda _: quote_identifier(schema), text)
