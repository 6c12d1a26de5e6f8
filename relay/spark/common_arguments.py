"""Arguments that jobs on an existing outbox share."""

from __future__ import annotations

import argparse

from relay.core.errors import ConfigError
from relay.spark.connecting import check_url
from relay.spark.running import secret


def add_outbox(parser: argparse.ArgumentParser, connections: str) -> None:
    """Where the outbox is; ``connections`` says what they are used for, and how many they are."""
    group = parser.add_argument_group("the outbox")
    group.add_argument("--url", help="postgresql://user@host:5432/database; without the password: others may read it")
    group.add_argument("--url-file", metavar="FILE", help="a file with the URL, password and all")
    group.add_argument("--table", metavar="[SCHEMA.]TABLE", help="the outbox table; default: openoutbox_events")
    group.add_argument("--max-connections", metavar="N", default="4", help=connections)


def outbox_url(args: argparse.Namespace, url: str | None) -> str:
    """The URL that was given, or ``url``. Raises ConfigError where there is none, or what is given is no URL."""
    found = secret("--url-file", args.url_file, args.url) or url
    if found is None:
        raise ConfigError("--url or --url-file: missing; where is the outbox's database?")
    check_url(found)
    return found


def number(option: str, text: str, most: int) -> int:
    """A number from 1 on. Raises ConfigError naming the option."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= most:
        raise ConfigError(f"{option}: {text!r} is not a number from 1 to {most}")
    return int(text)
