"""Arguments that the jobs share, and how their texts are read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime

from relay.core.durations import parse_time
from relay.core.errors import ConfigError
from relay.postgres.url import check_url
from relay.spark.jobs.program import secret


def add_outbox(parser: argparse.ArgumentParser, connections: str) -> None:
    """Where the outbox is; ``connections`` says what they are used for, and how many they are."""
    group = parser.add_argument_group("the outbox")
    group.add_argument("--url", help="postgresql://user@host:5432/database; without the password: others may read it")
    group.add_argument("--url-file", metavar="FILE", help="a file with the URL, password and all")
    group.add_argument("--table", metavar="[SCHEMA.]TABLE", help="the outbox table; default: openoutbox_events")
    group.add_argument("--max-connections", metavar="N", default="4", help=connections)


def add_output(group: argparse._ArgumentGroup) -> None:
    """Where the results go."""
    group.add_argument(
        "--output", metavar="FOLDER", required=True, help="Parquet and index.html; an earlier report there is replaced"
    )
    group.add_argument("--json", action="store_true", help="the summary as one JSON object")


def add_session(parser: argparse.ArgumentParser) -> None:
    """What a session that starts here needs besides; spark-submit has options of its own for it."""
    group = parser.add_argument_group("Spark, where no spark-submit has set it up")
    group.add_argument("--packages", metavar="MAVEN,…", help="packages to fetch, such as Spark's Kafka source")
    group.add_argument("--jars", metavar="FILE,…", help="jars that are there already")


def session_options(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """The settings of ``add_session``'s options."""
    given = {"spark.jars.packages": args.packages, "spark.jars": args.jars}
    return tuple((name, value) for name, value in given.items() if value)


def outbox_url(args: argparse.Namespace, url: str | None) -> str:
    """The URL that was given, or ``url``. Raises ConfigError where there is none, or what is given is no URL."""
    found = secret("--url-file", args.url_file, args.url) or url
    if found is None:
        raise ConfigError("--url or --url-file: missing; where is the outbox's database?")
    check_url(found, "--url")
    return found


def number(option: str, text: str, most: int) -> int:
    """A number from 1 on. Raises ConfigError naming the option."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= most:
        raise ConfigError(f"{option}: {text!r} is not a number from 1 to {most}")
    return int(text)


def read_options(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """``--partitions`` and ``--max-connections`` as the readers take them. Raises ConfigError naming the option."""
    return (
        ("numPartitions", str(number("--partitions", args.partitions, 10_000))),
        ("maxConnections", str(number("--max-connections", args.max_connections, 10_000))),
    )


def moment(option: str, text: str | None) -> datetime | None:
    """A time with its zone, or a date, which is its UTC midnight. Raises ConfigError naming the option."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def names(text: str | None) -> tuple[str, ...]:
    """A list with commas between."""
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()


def pairs(option: str, texts: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Texts ``NAME=VALUE`` in parts. Raises ConfigError naming the option."""
    found = []
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise ConfigError(f"{option}: {text!r} is not NAME=VALUE")
        found.append((name, value))
    return tuple(found)
