"""Examine a relay before it runs, or when it does not deliver: settings, outbox, broker, and how they fit.

Called by ``relay-cli check``. Changes nothing. Each fault is a finding with advice; only unreadable settings raise
ConfigError.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from typing import Final

from relay.app import publishers
from relay.app.destinations import RoutingPlan, read_plan
from relay.brokers.greeting import BROKER_NAMES, what_listens
from relay.core.durations import format_duration
from relay.core.errors import ConfigError, OutboxError
from relay.core.finding import Finding, Level
from relay.outbox.admin.check import SAMPLE, check_storage
from relay.routing.rules import Dropped, Sent, SentToAll, Undecided
from relay.settings.rules import lease_margin
from relay.settings.settings import Settings

_PROBE: Final = 10.0  # seconds for the broker's answer, a first connection included
_NEVER_STORED: Final = frozenset({"stdout", "null"})
_OF_AWS: Final = frozenset({"sqs", "sns"})


def examine(settings: Settings, retention: float) -> list[Finding]:
    """Examine everything that a relay needs; findings come in the order in which to correct them.

    ``retention`` is the age in seconds up to which prune retains delivered events.
    """
    if settings.storage_url is None:
        raise ConfigError("STORAGE_URL is not set")
    findings = [
        Finding(Level.WARNING, "settings", text, "see docs/reference/configuration.md") for text in settings.warnings
    ]
    plan = read_plan(settings)
    storage, types = check_storage(
        settings.storage_url.get_secret_value(),
        settings.storage_table_name,
        settings.lease_timeout,
        retention=retention,
        in_order=settings.ordering == "key",
        delete_delivered=settings.on_delivered == "delete",
        fan_out=plan.fan_out,
    )
    findings += storage
    if plan.several:
        for name, own in plan.destinations.items():
            findings += [Finding(Level.WARNING, name, text, "correct DESTINATIONS_FILE") for text in own.warnings]
    findings += _routes(plan, types)
    for name, own in plan.destinations.items():
        of_one = [*_lease(own), *asyncio.run(_broker(own, _names(plan, name, types)))]
        findings += [_about(name, finding) for finding in of_one] if plan.several else of_one
    return findings


def _about(name: str, finding: Finding) -> Finding:
    """The finding with the destination that it is about, and advice in the words of DESTINATIONS_FILE."""
    advice = finding.advice.replace("PUBLISHER_URL", "its url").replace("PUBLISHER_TYPE=", "type = ")
    return finding._replace(message=f"destination {name}: {finding.message}", advice=advice)


def _names(plan: RoutingPlan, destination: str, types: list[str] | None) -> list[str] | None:
    """The names that the waiting types have at this destination, as far as a type alone decides."""
    if types is None or plan.routes is None:
        return types
    decisions = [plan.routes.of_type(event_type) for event_type in types]
    sent = [one for one in decisions if isinstance(one, Sent)]
    sent += [one for decision in decisions if isinstance(decision, SentToAll) for one in decision.sent]
    return sorted({one.name for one in sent if not plan.several or one.via == destination})


def _routes(plan: RoutingPlan, types: list[str] | None) -> Iterator[Finding]:
    """What becomes of waiting types whose destination was not checked."""
    if plan.routes is None:
        return
    for event_type in types or ():
        match plan.routes.of_type(event_type):
            case Dropped(rule):
                yield Finding(Level.OK, "routes", f"route {rule.number} drops events of type {event_type!r}")
            case Undecided(rule):
                headers = " and ".join(rule.headers)
                message = (
                    f"route {rule.number} sends {event_type!r} by the header {headers}: no destination was checked"
                )
                yield Finding(Level.OK, "routes", message)
            case _:
                pass


def _lease(settings: Settings) -> Iterator[Finding]:
    """Compare the lease with the time that one publish may take."""
    margin = lease_margin(settings)
    if margin is None:
        return
    lease = f"LEASE_TIMEOUT={format_duration(margin.lease_timeout)}"
    timeout = f"{margin.variable}={format_duration(margin.publish_timeout)}"
    if margin.tight:
        advice = f"set LEASE_TIMEOUT to {format_duration(margin.recommended)} or more, or events may be sent twice"
        yield Finding(Level.WARNING, "lease", f"{lease} is not longer than twice {timeout}", advice)
    else:
        yield Finding(Level.OK, "lease", f"{lease} leaves room for {timeout}")


async def _broker(settings: Settings, types: list[str] | None) -> list[Finding]:
    """Check the broker's answer, the login, and a destination for each waiting event type."""
    kind = settings.publisher_type
    if kind in _NEVER_STORED:
        message = f"PUBLISHER_TYPE={kind} reaches no broker"
        advice = "set PUBLISHER_TYPE to kafka, nats, redis, rabbitmq, http, sqs or sns"
        return [Finding(Level.WARNING, "broker", message, advice)]
    try:
        return await (_http if kind == "http" else _session)(settings, types)
    except ConfigError as error:
        return [Finding(Level.ERROR, "broker", str(error), "correct the setting")]
    except OutboxError as error:
        return [Finding(Level.ERROR, "broker", str(error), await _broker_advice(settings))]


async def _session(settings: Settings, types: list[str] | None) -> list[Finding]:
    """Probe a broker, and ask it for a destination of each type."""
    kind = settings.publisher_type
    await _probe(settings)
    findings = [Finding(Level.OK, "broker", f"{kind}: connected and authenticated")]
    if types is None:
        return findings  # the waiting event types are not known; the table's findings say why
    return findings + await _existing(settings, types)


async def _existing(settings: Settings, types: list[str]) -> list[Finding]:
    """Look for a destination for each event type; a Redis stream begins with its first event."""
    match settings.publisher_type:
        case "nats":
            return await _nats(settings, types)
        case "kafka":
            return await _kafka(settings, types)
        case "rabbitmq":
            return await _rabbitmq(settings, types)
        case "sqs" | "sns":
            return await _aws(settings, types)
    return []


async def _broker_advice(settings: Settings) -> str:
    """What to do about a broker that does not answer: a server of another kind on its address says the most."""
    kind, url = settings.publisher_type, settings.publisher_url
    if kind in _OF_AWS:
        return "check the credentials (aws sts get-caller-identity shows whose they are), region and endpoint"
    answer = await what_listens(url.get_secret_value(), kind) if url is not None else ""
    if not answer:
        return "nothing listens on the address in PUBLISHER_URL; check host and port, and that the broker runs"
    if BROKER_NAMES[kind] in answer:
        return f"{answer}: check the login, TLS and the parameters of PUBLISHER_URL"
    return f"{answer}: correct the address in PUBLISHER_URL, or PUBLISHER_TYPE={kind}"


async def _probe(settings: Settings) -> None:
    publisher = publishers.build_publisher(settings)
    await publisher.open()
    try:
        await publisher.probe(_PROBE)
    finally:
        await publisher.close()


async def _kafka(settings: Settings, types: list[str]) -> list[Finding]:
    from relay.brokers.kafka.topics import read_topics  # noqa: PLC0415 - only with this broker

    topics = await read_topics(publishers.kafka_options(settings))
    advice = "create it or let this login see it, unless the brokers create topics automatically"
    missing = [name for name in types if name not in topics]
    findings = [Finding(Level.WARNING, "topics", f"topic {name!r} does not exist", advice) for name in missing]
    return findings or [_destinations("topics", "topic", types)]


async def _nats(settings: Settings, types: list[str]) -> list[Finding]:
    from relay.brokers.nats.streams import read_streams  # noqa: PLC0415 - only with this broker

    streams = await read_streams(publishers.nats_options(settings))
    stream_of = {name: next((stream for stream in streams if stream.takes(name)), None) for name in types}
    findings = [
        Finding(Level.ERROR, "streams", f"no stream takes the subject {name!r}", _add_stream(name))
        for name, stream in stream_of.items()
        if stream is None
    ] or [_destinations("streams", "stream", types)]
    used = (
        {stream.name: stream for stream in stream_of.values() if stream}
        if types
        else {one.name: one for one in streams}
    )
    return findings + [_window(settings, stream.name, stream.duplicate_window) for stream in used.values()]


async def _rabbitmq(settings: Settings, types: list[str]) -> list[Finding]:
    from relay.brokers.rabbitmq.queues import has_exchange, missing_queues  # noqa: PLC0415 - only with this broker

    options = publishers.rabbit_options(settings)
    if options.exchange:
        if await has_exchange(options):
            return [
                Finding(Level.OK, "exchange", f"exchange {options.exchange!r} exists; its bindings were not checked")
            ]
        advice = "create it, or correct RABBITMQ_EXCHANGE; until then events are retried and become dead letters"
        return [Finding(Level.ERROR, "exchange", f"exchange {options.exchange!r} does not exist", advice)]
    advice = "declare it, durable and of type quorum; until then its events are retried and become dead letters"
    missing = await missing_queues(options, types)
    findings = [Finding(Level.ERROR, "queues", f"queue {name!r} does not exist", advice) for name in missing]
    return findings or [_destinations("queues", "queue", types)]


async def _http(settings: Settings, types: list[str] | None) -> list[Finding]:
    from relay.brokers.http.checking import check_hosts, without_endpoint  # noqa: PLC0415 - only with webhooks

    options = publishers.http_options(settings)
    advice = "check the URL, the name, the network and HTTP_TLS_*; its events wait until it answers"
    findings = [
        Finding(Level.OK, "broker", f"{host}: connected; no request was sent")
        if reason is None
        else Finding(Level.ERROR, "broker", reason, advice)
        for host, reason in (await check_hosts(options, _PROBE)).items()
    ]
    if types is None:
        return findings
    advice = "add a pattern to HTTP_ENDPOINTS_FILE, or set PUBLISHER_URL; until then its events become dead letters"
    missing = [
        Finding(Level.ERROR, "endpoints", f"no endpoint takes the event type {name!r}", advice)
        for name in without_endpoint(options, types)
    ]
    return findings + (missing or [_destinations("endpoints", "URL", types)])


async def _aws(settings: Settings, types: list[str]) -> list[Finding]:
    from relay.brokers.aws.destinations import look  # noqa: PLC0415 - only with these services

    noun = "queue" if settings.publisher_type == "sqs" else "topic"
    advice = f"create the {noun} or grant the right; until then its events are retried and become dead letters"
    wrong = await look(publishers.aws_options(settings), types)
    findings = [
        Finding(Level.ERROR, f"{noun}s", f"event type {name!r}: {problem}", advice) for name, problem in wrong.items()
    ]
    return findings or [_destinations(f"{noun}s", noun, types)]


def _add_stream(subject: str) -> str:
    return (
        f"create one, nats stream add EVENTS --subjects {shlex.quote(subject)} --defaults, or add the subject to one; "
        "until then its events are retried and become dead letters"
    )


def _window(settings: Settings, stream: str, window: float) -> Finding:
    """Compare the stream's duplicate window with the time after which an event may be sent again."""
    needed = settings.lease_timeout + settings.nats_publish_timeout
    if window < needed:
        message = f"stream {stream} forgets an event's id after {format_duration(window)}, before its lease has expired"
        enough = format_duration(needed)
        advice = f"make that {enough} or more: nats stream edit {stream} --dupe-window {enough}"
        return Finding(Level.WARNING, "duplicates", message, advice)
    message = f"stream {stream} recognizes a repeated event for {format_duration(window)}"
    late = settings.retry_max_delay > window
    return Finding(Level.OK, "duplicates", f"{message}; a later retry may arrive twice" if late else message)


def _destinations(subject: str, noun: str, types: list[str]) -> Finding:
    if not types:
        return Finding(Level.OK, subject, "no event waits, so no destination was checked")
    return Finding(Level.OK, subject, f"a {noun} exists for each event type of the first {SAMPLE} waiting events")
