"""What is wrong with the outbox now, in words, and what to do. Pure: it judges figures that were read before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.core.durations import span
from relay.core.finding import Finding, Level
from relay.core.heartbeats import NO_ANSWER, REFUSES, ReportedCondition, conditions_in, event_in, reasons_beside
from relay.core.pause import PauseScope
from relay.outbox.admin.held import HeldEvents
from relay.outbox.admin.overview import LATE, MOST_COUNTED, Overview
from relay.outbox.admin.why import CURES, START, key_reasons, resume_command

PRUNED_AFTER: Final = 8 * 86_400.0
"""Seconds; prune retains a week by default, and runs once a day at least."""

_SAID: Final = (
    (REFUSES, "rows", "Correct the row, or the constraint or trigger that refuses it: relays try it again."),
    (NO_ANSWER, "types", CURES["away"]),
    ("", "relay", "relay-cli check says what to do."),
)
"""How what a relay says beside its destinations begins, what it is about, and what to do."""


def troubles(overview: Overview) -> list[Finding]:
    """The findings, errors first; empty when all is well."""
    findings = [
        *(_pause(held) for held in overview.held),
        *_reports(overview),  # causes, before the lag that follows from them
        *_lag(overview),
        *_relays(overview),
        *_dead(overview),
        *_retrying(overview),
        *_prune(overview),
        *_horizon(overview),
    ]
    return sorted(findings, key=lambda finding: finding.level is not Level.ERROR)


def _pause(held: HeldEvents) -> Finding:
    """One pause in force, and what waits because of it."""
    events = f"{'at least ' if held.at_least else ''}{counted(held.events, 'due event')}"
    verb = "waits" if held.events == 1 and not held.at_least else "wait"
    waiting = f"; {events} {verb} because of it" if held.events else ""
    message = f"{_sentence(str(held.pause)).rstrip('.')}{waiting}."
    return Finding(Level.WARNING, "pause", message, resume_command(held.pause.target), pause=held.pause.target)


def _lag(overview: Overview) -> Iterator[Finding]:
    backlog = overview.figures.backlog
    age = backlog.oldest_due_age
    if age < LATE:
        return
    waiting = backlog.pending_new + backlog.pending_retrying
    verb = "waits" if waiting == 1 else "wait"
    message = f"{_least(waiting)} {verb}, the oldest has been due for {span(age)}"
    if not overview.relays:
        yield Finding(Level.ERROR, "lag", f"No relay is connected: {message}.", START)
        return
    key = next(key_reasons(overview.ahead, {relay.ordering for relay in overview.reports}), None)
    because = "" if key is None else f" {key.sentence}"
    event = key.blocker[1] if key is not None and key.blocker is not None else ""
    if not overview.figures.in_flight:
        names = ", ".join(relay.relay_id for relay in overview.relays)
        advice = (
            "Look at /readyz of the relay: its broker may not answer. With ORDERING=key a dead event may hold a key."
        )
        if any(relay.reason for relay in overview.reports):
            advice = "What the relays say is named here, too; relay-cli show EVENT_ID says what one event waits for."
        message = f"Nothing is in flight: {message}, although {names} is connected.{because}"
        yield Finding(Level.ERROR, "lag", message, advice if key is None else key.step, event=event)
    else:
        advice = "Let it drain; if the age grows, start another relay or raise BATCH_SIZE."
        message = f"The relays are behind: {message}.{because}"
        yield Finding(Level.WARNING, "lag", message, advice if key is None else key.step, event=event)


def _relays(overview: Overview) -> Iterator[Finding]:
    if not overview.relays and overview.figures.backlog.oldest_due_age < LATE:
        yield Finding(
            Level.WARNING,
            "relays",
            "No relay is connected to this database.",
            "Start a relay. One behind a pool that hides names of connections is not seen here.",
        )


def _reports(overview: Overview) -> Iterator[Finding]:
    """What living relays say: destinations that do not flow, rows that are refused, a database that they cannot use."""
    if any(held.pause.target.scope is PauseScope.ALL for held in overview.held):
        return
    destinations: dict[tuple[str, str], list[tuple[ReportedCondition, str]]] = {}
    others: dict[str, list[str]] = {}
    for relay in overview.reports:
        for condition in conditions_in(relay.reason):
            destinations.setdefault((condition.name, condition.state), []).append((condition, relay.relay_id))
        for rest in reasons_beside(relay.reason):
            others.setdefault(rest, []).append(relay.relay_id)
    for (name, state), reports in destinations.items():
        first = min((condition for condition, _ in reports), key=lambda one: one.since)
        message = f"Destination {name} is {state} since {first.since}: {first.reason}"
        level = Level.WARNING if state == "slow" else Level.ERROR
        text = _according(message, [relay for _, relay in reports])
        yield Finding(level, "destination", text, CURES[state], event=event_in(first.reason))
    for reason, relays in others.items():
        subject, advice = next((what, cure) for begin, what, cure in _SAID if reason.startswith(begin))
        yield Finding(Level.ERROR, subject, _according(_sentence(reason), relays), advice, event=event_in(reason))


def _according(message: str, relays: list[str]) -> str:
    return f"{message.rstrip('.')}, according to {', '.join(relays)}."


def _dead(overview: Overview) -> Iterator[Finding]:
    dead = overview.figures.backlog.dead
    if not dead:
        return
    lately = [each for each in overview.types if each.dead]
    new = sum(each.dead for each in lately)
    worst = max(lately, key=lambda each: each.dead, default=None)
    message = f"{_least(dead)} {'is' if dead == 1 else 'are'} dead"
    if worst is not None:
        share = f"{new:,}" if new < dead else "it" if dead == 1 else "all"
        message += f"; {share} died in the last hour, "
        message += f"{worst.dead:,} of them " if len(lately) > 1 else ""
        message += f"of type {worst.event_type}"
    advice = (
        "Remove the cause, then replay them: relay-cli causes, or Dead letters, has them by cause; "
        "relay-cli replay --status dead takes all."
    )
    yield Finding(Level.WARNING, "dead", f"{_sentence(message)}.", advice)


def _retrying(overview: Overview) -> Iterator[Finding]:
    retrying = overview.figures.backlog.pending_retrying
    if retrying:
        verb = "waits" if retrying == 1 else "wait"
        yield Finding(
            Level.WARNING,
            "retrying",
            f"{_sentence(_least(retrying))} {verb} for the next attempt after a failure.",
            "The relays repeat them automatically. Their errors say what they wait for.",
        )


def _prune(overview: Overview) -> Iterator[Finding]:
    age = overview.oldest_delivered_age
    if age > PRUNED_AFTER:
        yield Finding(
            Level.WARNING,
            "prune",
            f"The oldest delivered event is {span(age)} old: prune does not run, or fails.",
            "Schedule relay-cli prune; relay-cli check --for prune examines its rights.",
        )


def _horizon(overview: Overview) -> Iterator[Finding]:
    holder = overview.horizon.held_long
    if holder is not None:
        message, advice = f"{_sentence(holder.said(holder.seconds))}.", f"{_sentence(holder.remedy)}."
        yield Finding(Level.WARNING, "horizon", message, advice)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def counted(count: int, noun: str) -> str:
    """``1 event``, ``1,200 events``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _least(count: int) -> str:
    """As many events at least: their count ends at ``MOST_COUNTED``."""
    return f"{'more than ' if count >= MOST_COUNTED else ''}{counted(count, 'event')}"
