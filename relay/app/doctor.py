"""Examine a whole relay before it runs, or when it does not deliver: settings, outbox, broker, and how they fit.

Called by ``relay-cli check``. Changes nothing anywhere. Whatever is wrong is a finding with what to do about it;
only settings that cannot be read at all raise ConfigError.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from typing import Final

from relay.app.build import build_publisher
from relay.core.durations import format_duration
from relay.core.errors import ConfigError, OutboxError
from relay.core.finding import Finding, Level
from relay.outbox.admin.check import SAMPLE, check_storage
from relay.settings import Settings

_PROBE: Final = 10.0  # seconds for the broker's answer, a first connection included
_NEVER_STORED: Final = frozenset({"stdout", "null"})


def examine(settings: Settings) -> list[Finding]:
    """Everything, in the order in which it should be mended."""
    if settings.storage_url is None:
        raise ConfigError("STORAGE_URL is not set")
    findings = [Finding(Level.WARNING, "settings", text, "see docs/configuration.md") for text in settings.warnings]
    in_order = settings.ordering == "key"
    storage, types = check_storage(settings.storage_url.get_secret_value(), settings.storage_table_name, in_order)
    return [*findings, *storage, *_lease(settings), *asyncio.run(_broker(settings, types))]


def _lease(settings: Settings) -> Iterator[Finding]:
    """The lease against the time that one publish may take."""
    limits = {
        "kafka": ("KAFKA_WRITE_TIMEOUT", settings.kafka_write_timeout),
        "nats": ("NATS_PUBLISH_TIMEOUT", settings.nats_publish_timeout),
        "redis": ("REDIS_WRITE_TIMEOUT", settings.redis_write_timeout),
    }
    if settings.publisher_type not in limits:
        return
    name, seconds = limits[settings.publisher_type]
    lease = format_duration(settings.lease_timeout)
    if settings.lease_timeout <= 2 * seconds:
        said = f"LEASE_TIMEOUT={lease} is less than twice {name}={format_duration(seconds)}"
        advice = f"set LEASE_TIMEOUT to {format_duration(4 * seconds)} or more, or events are sent twice"
        yield Finding(Level.WARNING, "lease", said, advice)
    else:
        yield Finding(Level.OK, "lease", f"LEASE_TIMEOUT={lease} leaves room for {name}={format_duration(seconds)}")


async def _broker(settings: Settings, types: list[str] | None) -> list[Finding]:
    """Does it answer, do we get in, and is there a destination for what waits?"""
    kind = settings.publisher_type
    if kind in _NEVER_STORED:
        said = f"PUBLISHER_TYPE={kind} reaches no broker"
        return [Finding(Level.WARNING, "broker", said, "set PUBLISHER_TYPE to kafka, nats or redis for real use")]
    try:
        await _probe(settings)
        found = [Finding(Level.OK, "broker", f"{kind} answers and lets us in")]
        if types is None:
            return found  # what waits for a destination is not known; the table's findings say why
        if kind == "nats":
            found += await _nats(settings, types)
        elif kind == "kafka":
            found += await _kafka(settings, types)
    except ConfigError as error:
        return [Finding(Level.ERROR, "broker", str(error), "correct the setting")]
    except OutboxError as error:
        return [Finding(Level.ERROR, "broker", str(error), "see that it runs, and PUBLISHER_URL and its login")]
    return found


async def _probe(settings: Settings) -> None:
    publisher = build_publisher(settings)
    await publisher.open()
    try:
        await publisher.probe(_PROBE)
    finally:
        await publisher.close()


async def _kafka(settings: Settings, types: list[str]) -> list[Finding]:
    from relay.brokers.kafka.options import KafkaOptions  # noqa: PLC0415 - only with this broker
    from relay.brokers.kafka.topics import read_topics  # noqa: PLC0415

    topics = await read_topics(KafkaOptions(_url(settings), read_timeout=settings.kafka_read_timeout))
    advice = "create it or let this login see it, unless the brokers create topics by themselves"
    missing = [name for name in types if name not in topics]
    found = [Finding(Level.WARNING, "topics", f"there is no topic {name!r}", advice) for name in missing]
    return found or [_destinations("topics", "topic", types)]


async def _nats(settings: Settings, types: list[str]) -> list[Finding]:
    from relay.brokers.nats.options import NatsOptions  # noqa: PLC0415 - only with this broker
    from relay.brokers.nats.streams import read_streams  # noqa: PLC0415

    streams = await read_streams(NatsOptions(_url(settings), connection_timeout=settings.nats_connection_timeout))
    taken = {name: next((stream for stream in streams if stream.takes(name)), None) for name in types}
    found = [
        Finding(Level.ERROR, "streams", f"no stream takes the subject {name!r}", _add_stream(name))
        for name, stream in taken.items()
        if stream is None
    ] or [_destinations("streams", "stream", types)]
    used = {stream.name: stream for stream in taken.values() if stream} if types else {one.name: one for one in streams}
    return found + [_window(settings, stream.name, stream.duplicate_window) for stream in used.values()]


def _add_stream(subject: str) -> str:
    return (
        f"make one, nats stream add EVENTS --subjects {shlex.quote(subject)} --defaults, or add the subject to one; "
        "until then its events are retried and at last dead"
    )


def _window(settings: Settings, stream: str, window: float) -> Finding:
    """The stream's memory of ids against the time after which an event may be sent again."""
    needed = settings.lease_timeout + settings.nats_publish_timeout
    if window < needed:
        said = f"stream {stream} forgets an event's id after {format_duration(window)}, before its lease has expired"
        enough = format_duration(needed)
        advice = f"make that {enough} or more: nats stream edit {stream} --dupe-window {enough}"
        return Finding(Level.WARNING, "duplicates", said, advice)
    said = f"stream {stream} knows a repeated event for {format_duration(window)}"
    late = settings.retry_max_delay > window
    return Finding(Level.OK, "duplicates", f"{said}; a later retry may arrive twice" if late else said)


def _destinations(subject: str, noun: str, types: list[str]) -> Finding:
    if not types:
        return Finding(Level.OK, subject, "nothing waits, so there is no destination to look for")
    return Finding(Level.OK, subject, f"there is a {noun} for each event type of the first {SAMPLE} waiting events")


def _url(settings: Settings) -> str:
    if settings.publisher_url is None:
        raise ConfigError("PUBLISHER_URL is not set")
    return settings.publisher_url.get_secret_value()
