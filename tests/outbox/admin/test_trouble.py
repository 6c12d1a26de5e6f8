"""What the overview says is wrong, from the figures alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from relay.core.durations import span
from relay.core.pause import EVERYTHING, Pause, PauseScope, PauseTarget
from relay.core.storage import Backlog
from relay.outbox.admin.browse import Figures
from relay.outbox.admin.held import HeldEvents
from relay.outbox.admin.overview import ConnectedRelay, Overview, TypeCount
from relay.outbox.admin.relays import FleetMember
from relay.outbox.admin.trouble import troubles
from relay.outbox.admin.why import EventAhead
from relay.postgres.horizon import Holder, XminHorizon

RELAY = ConnectedRelay("relay-0", 3)
_SINCE = datetime(2026, 3, 10, 8, 0, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Scene:
    """An outbox in which all is well, but for what a test changes."""

    waiting: int = 0
    retrying: int = 0
    due: float = 0.0
    dead: int = 0
    in_flight: int = 0
    relays: tuple[ConnectedRelay, ...] = (RELAY,)
    types: tuple[TypeCount, ...] = ()
    oldest_delivered: float = 0.0
    holder: Holder | None = None

    def overview(self) -> Overview:
        """The figures as they are read."""
        backlog = Backlog(self.waiting, self.retrying, self.due, self.due, self.dead)
        figures = Figures(backlog, self.in_flight)
        horizon = XminHorizon(9, self.holder)
        return Overview(figures, list(self.relays), [], list(self.types), self.oldest_delivered, horizon)


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        (Scene(waiting=1200, due=5, in_flight=100), []),
        (
            Scene(waiting=1200, due=200, relays=()),
            [("error", "No relay is connected: 1,200 events wait, the oldest has been due for 3 min 20 s.")],
        ),
        (
            Scene(waiting=1, due=200),
            [
                (
                    "error",
                    "Nothing is in flight: 1 event waits, the oldest has been due for 3 min 20 s, although relay-0 is",
                )
            ],
        ),
        (Scene(waiting=9, due=7200, in_flight=5), [("warning", "The relays are behind: 9 events wait")]),
        (Scene(relays=()), [("warning", "No relay is connected to this database.")]),
        (Scene(dead=1), [("warning", "1 event is dead.")]),
        (
            Scene(dead=5000, types=(TypeCount("a", 9, 1, 2, 100), TypeCount("b", 0, 40, 40, 100))),
            [("warning", "5,000 events are dead; 41 died in the last hour, 40 of them of type b.")],
        ),
        (Scene(retrying=1), [("warning", "1 event waits for the next attempt after a failure.")]),
        (Scene(oldest_delivered=9 * 86_400.0), [("warning", "The oldest delivered event is 9 d old: prune does not")]),
        (
            Scene(holder=Holder("pid", "4711", "pg_dump", "backup", 2820.0, 5000)),
            [
                (
                    "warning",
                    "The xmin horizon has been held for 47 min by pid 4711 (pg_dump, role backup): vacuum removes",
                )
            ],
        ),
        (Scene(holder=Holder("pid", "4711", "pg_dump", "backup", 60.0, 5000)), []),
        (
            Scene(dead=2, waiting=3, due=99, relays=()),
            [("error", "No relay is connected: 3 events wait"), ("warning", "2 events are dead.")],
        ),
    ],
)
def test_findings(scene: Scene, expected: list[tuple[str, str]]) -> None:
    findings = troubles(scene.overview())
    assert len(findings) == len(expected)
    for finding, (level, message) in zip(findings, expected, strict=True):
        assert finding.level == level
        assert finding.message.startswith(message)
        assert finding.advice


def test_what_living_relays_say_stands_in_place_of_a_guess() -> None:
    away = "destination kafka is away since 2026-03-10T11:00:00Z: no broker"
    member = FleetMember(
        "relay-0", uuid4(), "1.0", "host", _SINCE, _SINCE, 1.0, True, "paused", away, "kafka", "ab12", 180.0, "none",
        "keep", 0.0, 0.0, 0, 0, "default", None,
    )  # fmt: skip
    slow = member._replace(relay_id="relay-2", reason=away.replace("away", "slow"))
    overview = Scene(waiting=1, due=200).overview()
    destination, lag, slowness = troubles(
        overview._replace(reports=[member, member._replace(relay_id="relay-1"), slow, slow._replace(reason="")])
    )
    assert "may not answer" not in lag.advice
    assert destination.level == "error"
    assert destination.message == f"D{away[1:]}, according to relay-0, relay-1."
    assert destination.advice.startswith("Restore it")
    assert (slowness.level, slowness.subject) == ("warning", "destination")
    everything = Pause(EVERYTHING, None, "ada", "repair", _SINCE)
    held = [HeldEvents(everything, 1, at_least=False)]
    assert [one.subject for one in troubles(Scene().overview()._replace(reports=[member], held=held))] == ["pause"]


def test_a_destination_that_is_away_comes_before_the_lag_that_follows_from_it() -> None:
    away = "destination eu is away since 2026-03-10T11:00:00Z: connection refused"
    member = FleetMember(
        "relay-0", uuid4(), "1.0", "host", _SINCE, _SINCE, 1.0, True, "active", away, "kafka", "ab12", 180.0, "none",
        "keep", 0.0, 0.0, 0, 0, "default", None,
    )  # fmt: skip
    found = troubles(Scene(waiting=1, due=200).overview()._replace(reports=[member]))
    assert [finding.message.partition(":")[0] for finding in found] == [
        "Destination eu is away since 2026-03-10T11",
        "Nothing is in flight",
    ]


def test_each_destination_each_refused_row_and_the_types_left_out_of_what_relays_say_is_a_finding_of_its_own() -> None:
    member = FleetMember(
        "relay-0", uuid4(), "1.0", "host", _SINCE, _SINCE, 1.0, True, "active", "", "several", "ab12", 180.0, "none",
        "keep", 0.0, 0.0, 0, 0, "default", None,
    )  # fmt: skip
    eu = "destination eu is slow since 2026-03-10T11:00:00Z: 9 s for an answer"
    us = "destination us is refused since 2026-03-10T11:05:00Z: wrong password"
    refused = "0b951302-8811-47ea-b813-0595dc183037"
    row = f"the database refuses to settle event {refused} and 2 others: a trigger"
    types = "no answer for event types a (shard 2 is away)"
    reports = [
        member._replace(reason=f"{eu}; {us}; {row}; {types}"),
        member._replace(relay_id="relay-1", reason=us.replace("11:05", "11:04")),
        member._replace(relay_id="relay-2", state="error", reason="no connection to the database"),
    ]
    found = troubles(Scene().overview()._replace(reports=reports))
    assert [(one.level, one.subject, one.message) for one in found] == [
        (
            "error",
            "destination",
            "Destination us is refused since 2026-03-10T11:04:00Z: wrong password, according to relay-0, relay-1.",
        ),
        (
            "error",
            "rows",
            f"The database refuses to settle event {refused} and 2 others: a trigger, according to relay-0.",
        ),
        ("error", "types", "No answer for event types a (shard 2 is away), according to relay-0."),
        ("error", "relay", "No connection to the database, according to relay-2."),
        (
            "warning",
            "destination",
            "Destination eu is slow since 2026-03-10T11:00:00Z: 9 s for an answer, according to relay-0.",
        ),
    ]
    assert all(one.advice for one in found)
    assert [one.event for one in found] == ["", refused, "", "", ""]


@pytest.mark.parametrize(
    ("until", "end"),
    [(None, ""), (_SINCE + timedelta(hours=1), " until 2026-03-10T09:00:30Z")],
)
def test_a_pause_is_a_finding_that_says_who_why_and_how_long(until: datetime | None, end: str) -> None:
    pause = Pause(PauseTarget(PauseScope.TYPE, "a"), until, "ada", "repair", _SINCE)
    [finding] = troubles(Scene().overview()._replace(held=[HeldEvents(pause, 0, at_least=False)]))
    assert finding.message == f"Event type a is paused by ada since 2026-03-10T08:00:30Z{end}: repair."
    assert (finding.advice, finding.pause) == ("relay-cli resume --type a", pause.target)
    assert set(finding.answer()) == {"level", "subject", "message", "advice"}


@pytest.mark.parametrize("in_flight", [0, 5])
def test_a_lag_says_what_the_oldest_due_event_waits_for_in_its_key(in_flight: int) -> None:
    head = EventAhead("5c951302-8811-47ea-b813-0595dc183037", "t", "DEAD", _SINCE)
    [lag] = troubles(Scene(waiting=1, due=200, in_flight=in_flight).overview()._replace(ahead=[head]))
    assert lag.message.endswith(
        f". Event {head.event_id} of its key is dead since 2026-03-10T08:00:30Z and holds the key, "
        "if relays run with ORDERING_ON_DEAD=block."
    )
    assert lag.advice == f"Remove the cause, then: relay-cli replay --id {head.event_id}"
    assert lag.event == head.event_id


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.2, "1 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3725, "1 h 2 min"),
        (86_400, "1 d"),
        (200_000, "2 d 7 h"),
    ],
)
def test_a_span_has_two_units_at_most(seconds: float, text: str) -> None:
    assert span(seconds) == text
