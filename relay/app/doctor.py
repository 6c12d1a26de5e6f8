"""Examine a relay before it runs, or when it does not deliver: settings, outbox, broker, and how they fit.

Called by ``relay-cli check``. Changes nothing. Each fault is a finding with advice; only unreadable settings raise
ConfigError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from relay.app import build, publishers
from relay.app.broken import read_state
from relay.app.destinations import RoutingPlan, read_plan
from relay.app.rolecheck import check_log
from relay.brokers import kinds
from relay.brokers.findings import without_refused
from relay.brokers.greeting import what_listens
from relay.brokers.kinds import Check, CheckContext, DestinationKind
from relay.core.allowed import refused_type
from relay.core.durations import format_duration
from relay.core.errors import ConfigError, OutboxError, SchemaError
from relay.core.finding import Finding, Level
from relay.outbox.admin.outbox_check import NO_DATABASE, SAMPLE, check_storage
from relay.outbox.admin.relays import list_relays
from relay.outbox.admin.waking import check_wake_ups
from relay.postgres.sql import TableName
from relay.routing.rules import Dropped, Sent, SentToAll, Undecided, Unmatched
from relay.settings.combinations import lease_margin
from relay.settings.settings import Settings

_PROBE: Final = 10.0  # seconds for the broker's answer, a first connection included
_POSTGRES_PORT: Final = 5432
_AT_A_TIME: Final = 16  # destinations


def examine(settings: Settings, retention: float) -> list[Finding]:
    """Examine everything that a relay needs; findings come in the order in which to correct them.

    ``retention`` is the age in seconds up to which prune retains delivered events.
    """
    url = settings.required("STORAGE_URL")
    findings = [
        Finding(Level.WARNING, "settings", text, "see docs/reference/configuration.md") for text in settings.warnings
    ]
    plan = read_plan(settings)
    storage, types = check_storage(
        url,
        settings.storage_table_name,
        settings.lease_timeout,
        retention=retention,
        in_order=settings.ordering == "key",
        delete_delivered=settings.on_delivered == "delete",
        fan_out=(Level.ERROR if plan.transactions else Level.WARNING) if plan.fan_out else None,
        dated=_dated(plan),
    )
    findings += [_named_server(finding, url) for finding in storage]
    if types is not None:
        findings += _broken_now(settings)
    if settings.wake_up and types is not None:
        findings += check_wake_ups(url, settings.storage_table_name)
    if types is not None and (allowed := settings.allowed_event_types) is not None:
        types, refused = without_refused(types, lambda name: refused_type(name, allowed))
        findings += refused
    if plan.several:
        for name, own in plan.destinations.items():
            findings += [Finding(Level.WARNING, name, text, "correct DESTINATIONS_FILE") for text in own.warnings]
    findings += [Finding(Level.WARNING, "routes", text, "see docs/guide/routing.md") for text in plan.warnings]
    findings += [*_routes(plan, types), *_transactions(url, settings.storage_table_name, plan), *check_log(settings)]
    return findings + asyncio.run(_all(plan, types))


async def _all(plan: RoutingPlan, types: list[str] | None) -> list[Finding]:
    """Check every destination, some at a time."""
    turns = asyncio.Semaphore(_AT_A_TIME)

    async def check(name: str, own: Settings) -> list[Finding]:
        async with turns:
            found = [*_lease(own), *await _broker(own, _names(plan, name, types))]
        return [_about(name, finding) for finding in found] if plan.several else found

    checked = await asyncio.gather(*(check(*one) for one in plan.destinations.items()))
    return [finding for found in checked for finding in found]


def _broken_now(settings: Settings) -> list[Finding]:
    """What ``relay-cli causes`` names of the outbox, in its words."""
    url, table = settings.required("STORAGE_URL"), settings.storage_table_name
    try:
        findings = read_state(url, table, settings.event_store_schema).before_a_start()
    except OutboxError as error:
        return [Finding(Level.WARNING, "causes", f"what is broken now was not read: {error}", "run relay-cli causes")]
    return findings or [Finding(Level.OK, "causes", "nothing is broken")]


def _dated(plan: RoutingPlan) -> list[str]:
    """What of the messages has a time, and by whose clock."""
    found = [kinds.find(own.publisher_type) for own in plan.destinations.values()]
    return sorted({kind.dated for kind in found if kind is not None and kind.dated})


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
            case Unmatched():
                advice = (
                    "add a pattern to HTTP_ENDPOINTS_FILE, or set PUBLISHER_URL; else its events become dead letters"
                )
                yield Finding(Level.ERROR, "endpoints", f"no endpoint takes the event type {event_type!r}", advice)
            case _:
                pass


def _transactions(url: str, table: TableName, plan: RoutingPlan) -> Iterator[Finding]:
    """Whether all living relays of the table have KAFKA_TRANSACTIONS, without which none uses them."""
    if not plan.transactions:
        return
    try:
        relays = list_relays(url, table)
    except SchemaError as error:
        message = f"whether every relay of the table has KAFKA_TRANSACTIONS=true cannot be seen: {error}"
        yield Finding(Level.WARNING, "fleet", message, "make sure of it: one without it repeats events of the others")
    except OutboxError:
        return  # said of the storage already
    else:
        without = sorted({one.relay_id for one in relays if one.living and one.transactions != "true"})
        if without:
            message = f"relays without KAFKA_TRANSACTIONS=true live, so none uses transactions: {', '.join(without)}"
            yield Finding(Level.WARNING, "fleet", message, "set it for all of them, or stop those")


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


async def _broker(settings: Settings, names: list[str] | None) -> list[Finding]:
    """Check the broker's answer, the login, and a destination for each waiting event type."""
    kind = kinds.find(settings.publisher_type)
    if kind is None:
        message = f"PUBLISHER_TYPE={settings.publisher_type} reaches no broker"
        advice = f"set PUBLISHER_TYPE to {kinds.listed(kinds.names())}"
        return [Finding(Level.WARNING, "broker", message, advice)]
    try:
        return await _destinations(settings, kind, names)
    except ConfigError as error:
        return [Finding(Level.ERROR, "broker", str(error), "correct the setting")]
    except OutboxError as error:
        return [Finding(Level.ERROR, "broker", str(error), await _broker_advice(settings, kind))]


async def _destinations(settings: Settings, kind: DestinationKind, names: list[str] | None) -> list[Finding]:
    """Probe a broker, and look for a destination of each name; None where the table could not tell them."""
    await _probe(settings)
    findings = [Finding(Level.OK, "broker", f"{kind.name}: {kind.answered}")]
    options = publishers.options_of(settings)  # before the import: it names the extra when the client is missing
    if not kind.check:
        return findings
    check: Check = kinds.load(kind.check)
    repeated_within = build.retry_policy(settings).repeated_within(settings.lease_timeout)
    context = CheckContext(repeated_within, settings.retry_max_delay, SAMPLE, _PROBE)
    return findings + await check(options, names, context)


def _named_server(finding: Finding, url: str) -> Finding:
    """A database that does not answer, with what answers in its place: a broker may be silent to its questions."""
    if finding.advice != NO_DATABASE:
        return finding
    answer = asyncio.run(what_listens(url, _POSTGRES_PORT))
    if not answer or "PostgreSQL" in answer:
        return finding
    return finding._replace(advice=f"{answer}: correct the host or the port in STORAGE_URL")


async def _broker_advice(settings: Settings, kind: DestinationKind) -> str:
    """What to do about a broker that does not answer: a server of another kind on its address says the most."""
    url = settings.publisher_url
    if kind.unreachable:
        return kind.unreachable
    answer = await what_listens(url.get_secret_value(), kind.port) if url is not None and kind.port is not None else ""
    if not answer:
        return "nothing listens on the address in PUBLISHER_URL; check host and port, and that the broker runs"
    if kind.server in answer:
        return f"{answer}: check the login, TLS and the parameters of PUBLISHER_URL"
    return f"{answer}: correct the address in PUBLISHER_URL, or PUBLISHER_TYPE={kind.name}"


async def _probe(settings: Settings) -> None:
    """Without transactions: their probe would end those of the relay with this RELAY_ID, which may be living."""
    publisher = publishers.build_publisher(settings.model_copy(update={"kafka_transactions": False}))
    await publisher.open()
    try:
        await publisher.probe(_PROBE)
    finally:
        await publisher.close()
