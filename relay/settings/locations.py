"""Where the outbox and the delivery log are: all that most commands need of the environment.

The same variables by the same readers as ``Settings``, without pydantic: half of the processor time of a short command.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from relay.core.errors import ConfigError
from relay.postgres.sql import DEFAULT_LOG_SCHEMA, LONGEST_IDENTIFIER, TableName
from relay.settings import secret_files
from relay.settings.dotenv import read_dotenv
from relay.settings.missing import missing
from relay.settings.readers import LONGEST_PREFIX, name_reader, read_postgres_url, read_table

_OUTBOX: Mapping[str, Callable[[str], Any]] = {"STORAGE_URL": read_postgres_url, "STORAGE_TABLE_NAME": read_table}
_LOG: Mapping[str, Callable[[str], Any]] = {
    "DELIVERY_LOG_URL": str,
    "DELIVERY_LOG_SCHEMA": name_reader(LONGEST_IDENTIFIER),
    "DELIVERY_LOG_PREFIX": name_reader(LONGEST_PREFIX),
}


class OutboxLocation(NamedTuple):
    """The database and the table; the URL holds the password."""

    url: str
    table: TableName


class LogLocation(NamedTuple):
    """The delivery log, whose URL holds the password; None without one."""

    url: str | None
    schema: str
    prefix: str


def outbox_location(overrides: Mapping[str, str]) -> OutboxLocation:
    """STORAGE_URL and STORAGE_TABLE_NAME; ``overrides`` win. Raises ConfigError with every problem."""
    values = _read(_OUTBOX, overrides, "STORAGE_URL")
    return OutboxLocation(values["STORAGE_URL"], values.get("STORAGE_TABLE_NAME", TableName()))


def log_location(overrides: Mapping[str, str]) -> LogLocation:
    """The DELIVERY_LOG_* variables of this name; ``overrides`` win. Raises ConfigError with every problem."""
    values = _read(_LOG, overrides)
    return LogLocation(
        values.get("DELIVERY_LOG_URL"),
        values.get("DELIVERY_LOG_SCHEMA", DEFAULT_LOG_SCHEMA),
        values.get("DELIVERY_LOG_PREFIX", ""),
    )


def log_address(overrides: Mapping[str, str]) -> str:
    """DELIVERY_LOG_URL, which is needed; ``overrides`` win. Raises ConfigError with every problem."""
    return str(_read(_LOG, overrides, "DELIVERY_LOG_URL")["DELIVERY_LOG_URL"])


def _read(
    readers: Mapping[str, Callable[[str], Any]], overrides: Mapping[str, str], needed: str = ""
) -> dict[str, Any]:
    problems: list[str] = []
    file = read_dotenv(Path(".env"), os.environ, problems)
    merged = secret_files.merged((file, os.environ, overrides), readers.keys(), problems)
    texts, failed = secret_files.from_files(merged, readers.keys(), problems)
    values = {}
    for name, read in readers.items():
        if name in texts:
            try:
                texts[name].encode()
                values[name] = read(texts[name])
            except UnicodeEncodeError:
                problems.append(f"{name}: is not UTF-8 text")
            except ValueError as error:
                problems.append(f"{name}: {error}")
    if needed and needed not in texts and needed not in failed:
        problems.append(missing(needed, texts))
    if problems:
        raise ConfigError("\n".join(problems))
    return values
