"""Why an event is not delivered: what is said for each state, and what stands first where several hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.heartbeats import conditions_in, heartbeat_reason, reasons_beside
from relay.core.outcome import Acknowledged, Transient
from relay.core.pause import EVERYTHING, Pause, PauseScope, PauseTarget
from relay.core.places import Place, Places
from relay.outbox.admin.browse import ShownEvent
from relay.outbox.admin.relays import FleetMember
from relay.outbox.admin.why import EventAhead, Facts, why

NOW: Final = datetime(2026, 3, 10, 12, tzinfo=UTC)
ID: Final = UUID("0190b0a0-0000-7000-8000-000000000001")
FIRST: Final = "0190b0a0-0000-7000-8000-000000000002"
EVENT: Final = ShownEvent(
    ID, "order.paid", "k", "PENDING", 0, None, NOW - timedelta(minutes=5), NOW - timedelta(minutes=5), None, None, None,
    NOW - timedelta(minutes=5), "{}", b"",
)  # fmt: skip
FAILED: Final = EVENT._replace(attempts=2, last_error="HTTP_503: no answer.", available_at=NOW + timedelta(minutes=1))
LEASED: Final = EVENT._replace(status="DELIVERING", locked_by="relay-0", locked_at=NOW - timedelta(minutes=1))
RELAY: Final = FleetMember(
    "relay-0", uuid4(), "1.0", "host", NOW, NOW, 1.0, True, "active", "", "kafka", "ab12", 180.0, "none", "keep",
    0.0, 0.0, 0, 0, "default", None,
)  # fmt: skip
IN_ORDER: Final = RELAY._replace(ordering="key")
BLOCKING: Final = RELAY._replace(ordering="key, block")
GONE: Final = RELAY._replace(living=False)
AWAY: Final = "destination kafka is away since 2026-03-10T11:00:00Z: no broker; 3 of 3 are down"
PART: Final = "destination kafka/t is away since 2026-03-10T11:00:00Z: no broker"
REFUSED: Final = f"the database refuses to claim event {ID} (and 1 more): NO: check"
PAUSE: Final = Pause(PauseTarget(PauseScope.TYPE, "order.paid"), None, "ada", "repair", NOW - timedelta(hours=1))
WAITS: Final = EventAhead(FIRST, "order.placed", "PENDING")
DEAD: Final = EventAhead(FIRST, "order.placed", "DEAD")
LONG_AGO: Final = NOW - timedelta(hours=1)


def facts(*relays: FleetMember, pause: Pause | None = None, ahead: EventAhead | None = None) -> Facts:
    """The facts of an outbox with these relays."""
    connected = [relay.relay_id for relay in relays if relay.living]
    pauses, before = [pause] if pause else [], [ahead] if ahead else []
    return Facts(NOW, pauses, list(relays), connected, before)


@pytest.mark.parametrize(
    ("event", "known", "sentence", "step"),
    [
        (EVENT, facts(RELAY), "It has been due since 2026-03-10T11:55:00Z: a relay claims it next.", ""),
        (
            EVENT._replace(status="DELIVERED", delivered_at=NOW),
            facts(pause=PAUSE),
            "It was delivered at 2026-03-10T12:00:00Z.",
            "",
        ),
        (
            FAILED._replace(status="DEAD"),
            facts(pause=PAUSE),
            "It has been dead since 2026-03-10T11:55:00Z, after 2 failed attempts: HTTP_503: no answer.",
            f"relay-cli replay --id {ID}",
        ),
        (
            LEASED,
            facts(RELAY),
            "Relay relay-0 claimed it at 2026-03-10T11:59:00Z and holds it; the lease ends at 2026-03-10T12:02:00Z.",
            "",
        ),
        (
            LEASED._replace(locked_at=LONG_AGO),
            facts(RELAY._replace(relay_id="relay-1"), GONE),
            "Relay relay-0 claimed it at 2026-03-10T11:00:00Z; the lease ended at 2026-03-10T11:03:00Z.",
            "takes it back",
        ),
        (LEASED, Facts(NOW, connected=["a"]), "Relay relay-0 claimed it at 2026-03-10T11:59:00Z and", "LEASE_TIME"),
        (
            FAILED,
            facts(RELAY),
            "It is tried again at 2026-03-10T12:01:00Z, after 2 failed attempts: HTTP_503:",
            "retry",
        ),
        (
            EVENT._replace(available_at="infinity"),
            facts(RELAY),
            "It was inserted for a later time: it is due at inf",
            "",
        ),
        (
            EVENT,
            facts(RELAY, pause=PAUSE),
            "Event type order.paid is paused by ada since 2026-03-10T11:00:00Z: repair.",
            "relay-cli resume --type order.paid",
        ),
        (
            EVENT,
            facts(RELAY, pause=PAUSE._replace(target=EVERYTHING)),
            "The whole outbox is paused by ada since",
            "relay-cli resume",
        ),
        (
            EVENT,
            facts(IN_ORDER, ahead=WAITS),
            f"It waits behind event {FIRST} of its key, which is PENDING.",
            f"relay-cli show {FIRST}",
        ),
        (
            EVENT,
            facts(BLOCKING, ahead=DEAD),
            f"Event {FIRST} of its key is dead and holds the key.",
            f"relay-cli replay --id {FIRST}",
        ),
        (EVENT, facts(IN_ORDER, ahead=DEAD), "It has been due since", ""),
        (EVENT, facts(RELAY, ahead=WAITS), "It has been due since", ""),
        (
            EVENT,
            facts(RELAY._replace(reason=AWAY, state="paused")),
            "Its destination kafka is away since 2026-03-10T11:00:00Z: no broker; 3 of 3 are down.",
            "Restore it",
        ),
        (
            EVENT,
            facts(RELAY._replace(reason=f"{AWAY}; {REFUSED}")),
            "Its destination kafka is away since 2026-03-10T11:00:00Z: no broker; 3 of 3 are down.",
            "Restore it",
        ),
        (EVENT, facts(), "No relay is connected: it has been due since 2026-03-10T11:55:00Z.", "Start a relay"),
        (EVENT, facts(GONE), "No relay is connected: it has been due since 2026-03-10T11:55:00Z.", "Start a relay"),
        (EVENT, Facts(NOW), "No relay is connected: it has been due since 2026-03-10T11:55:00Z.", "Start a relay"),
        (EVENT, Facts(NOW, connected=["a"]), "It has been due since", ""),
        (
            EVENT,
            Facts(NOW, relays=[RELAY]),
            "No relay is connected: it has been due since 2026-03-10T11:55:00Z.",
            "Start a relay",
        ),
        (
            EVENT,
            facts(RELAY._replace(state="error", reason="disk full")),
            "Relay relay-0 cannot use the database: disk full.",
            "relay-cli check",
        ),
        (EVENT, facts(RELAY._replace(reason=REFUSED)), f"The database refuses to claim event {ID}", "Correct the row"),
    ],
)
def test_the_answer_says_what_is_in_the_way_and_what_to_do(
    event: ShownEvent, known: Facts, sentence: str, step: str
) -> None:
    answer = why(event, known)
    assert answer.first.sentence.startswith(sentence)
    assert step in answer.first.step
    assert bool(step) == bool(answer.first.step)


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (Facts(NOW, connected=["a"], ahead=[WAITS]), ", if relays run with ORDERING=key."),
        (Facts(NOW, connected=["a"], ahead=[DEAD]), ", if relays run with ORDERING_ON_DEAD=block."),
        (facts(RELAY._replace(reason=AWAY, destination_type="several")), "if its route goes there"),
        (facts(RELAY._replace(reason=AWAY), RELAY._replace(relay_id="relay-1")), "as relay relay-0 says"),
        (Facts(NOW, relays=[], connected=["relay-0"]), "although relay-0 is connected"),
        (Facts(NOW, connected=["a"], unknown=["no right"]), "Not known: no right."),
    ],
)
def test_what_may_be_in_the_way_stands_beside_the_answer(known: Facts, sentence: str) -> None:
    answer = why(EVENT, known)
    assert answer.first.cause == "due"
    [reason] = answer.also
    assert sentence in reason.sentence


@pytest.mark.parametrize(
    ("kind", "via", "first"),
    [
        ("kafka", "orders-eu", "destination"),  # PUBLISHER_NAME, which routes use and the relay's state does not
        ("kafka", "kafka", "destination"),
        ("kafka", "", "destination"),
        ("several", "kafka", "destination"),
        ("several", "audit", "due"),
        ("kafka", None, "due"),
    ],
)
def test_the_routes_of_one_destination_lead_there_whatever_they_call_it(kind: str, via: str | None, first: str) -> None:
    sent = () if via is None else (Place(via, "orders"),)
    known = facts(RELAY._replace(reason=AWAY, destination_type=kind))
    assert why(EVENT, replace(known, places={"relay-0": Places(sent)})).first.cause == first


def test_what_holds_a_leased_event_is_said_where_the_database_refuses_to_settle_it() -> None:
    refused = f"the database refuses to settle event {ID}: settling: not this one"
    answer = why(LEASED, facts(RELAY._replace(reason=refused)))
    assert answer.first.cause == "lease"
    assert [reason.sentence for reason in answer.also] == [f"T{refused[1:]}."]


@st.composite
def events(draw: st.DrawFn) -> ShownEvent:
    """Events of any status and time."""
    event = draw(
        st.sampled_from([EVENT, FAILED, LEASED, LEASED._replace(locked_at=LONG_AGO), FAILED._replace(attempts=0)])
    )
    status = draw(st.sampled_from([event.status, event.status, "DELIVERED", "DEAD"]))
    return event._replace(status=status, event_type=draw(st.sampled_from(["order.paid", "a b'c", ""])))


_PLACES: Final = [
    Places((Place("kafka", "t"),)),
    Places((Place("audit", "t"), Place("kafka", "t"))),
    Places((), Transient("NO_ENDPOINT", "no pattern matches")),
    Places((), Acknowledged(), 2),
]


@pytest.mark.parametrize(
    ("kind", "name", "via", "first", "words"),
    [
        ("sqs", "sqs/order-paid", None, "destination", "Its destination sqs/order-paid is away"),
        ("sqs", "sqs/order_paid", "", "destination", "Its destination sqs/order_paid is away"),
        ("sqs", "sqs/order-lost", None, "due", ""),
        ("sqs", "sqs/order-lost", "", "due", ""),
        ("redis", "redis/10.0.0.1:7001", None, "due", "away since 2026-03-10T11:00:00Z if it goes there: no"),
        ("several", "many/order-paid", "many", "destination", "Its destination many/order-paid is away"),
        ("several", "many/order-lost", "many", "due", "if it goes there"),
        ("several", "many/order-paid", "other", "due", ""),
        ("http", "hooks/example.com", "hooks/example.com", "destination", "Its destination hooks/example.com is away"),
        ("http", "hooks/example.com", "hooks/example.org", "due", ""),
    ],
)
def test_a_queue_or_node_that_is_away_is_in_the_way_of_its_own_events_alone(
    kind: str, name: str, via: str | None, first: str, words: str
) -> None:
    relay = RELAY._replace(reason=f"destination {name} is away since 2026-03-10T11:00:00Z: no", destination_type=kind)
    known = facts(relay)
    if via is not None:
        known = replace(known, places={RELAY.relay_id: Places((Place(via, "order.paid"),))})
    answer = why(EVENT, known)
    assert EVENT.event_type == "order.paid"
    assert answer.first.cause == first
    named = [one.sentence for one in (answer.first, *answer.also) if one.cause == "destination"]
    assert [words in sentence for sentence in named] == [True] * bool(words)


@st.composite
def any_facts(draw: st.DrawFn) -> Facts:
    """Facts of any kind, also those that contradict one another."""
    members = st.builds(
        RELAY._replace,
        relay_id=st.sampled_from(["relay-0", "relay-1"]),
        living=st.booleans(),
        state=st.sampled_from(["active", "paused", "error", "starting"]),
        reason=st.sampled_from(["", AWAY, PART, REFUSED, f"{AWAY}; {REFUSED}", "disk full", "destination x is lost"]),
        destination_type=st.sampled_from(["kafka", "several", "http"]),
        ordering=st.sampled_from(["none", "key", "key, block"]),
    )
    return Facts(
        NOW,
        draw(st.lists(st.sampled_from([PAUSE, PAUSE._replace(target=EVERYTHING)]), max_size=2)),
        draw(st.none() | st.lists(members, max_size=3)),
        draw(st.lists(st.sampled_from(["relay-0", "relay-1"]), max_size=2)),
        draw(st.lists(st.sampled_from([WAITS, DEAD]), max_size=2, unique=True)),
        draw(st.dictionaries(st.sampled_from(["relay-0", "relay-1"]), st.sampled_from(_PLACES))),
        draw(st.lists(st.just("no right"), max_size=1)),
    )


_ORDER: Final[tuple[str, ...]] = (
    "lease", "backoff", "scheduled", "pause", "key", "route", "destination", "relay", "refused",
)  # fmt: skip


@given(events(), any_facts())
def test_causes_stand_in_their_order_and_what_is_not_certain_behind_them(event: ShownEvent, known: Facts) -> None:
    answer = why(event, known)
    reasons = [answer.first, *answer.also]
    assert all(reason.sentence.endswith(".") and reason.sentence[0].isupper() for reason in reasons)
    assert answer.first.certain
    certain = [reason.certain for reason in reasons]
    assert certain == sorted(certain, reverse=True)
    places = [_ORDER.index(reason.cause) for reason in reasons if reason.certain and reason.cause in _ORDER]
    assert places == sorted(places)
    assert (answer.first.cause == "lease") == (event.status == "DELIVERING")
    if event.status in ("DELIVERED", "DEAD"):
        assert (answer.first.cause, answer.also) == (event.status.lower(), ())
    if event.status == "PENDING" and answer.first.cause == "due":
        assert not any(reason.certain for reason in answer.also)


@given(st.sets(st.sampled_from(("backoff", "pause", "key", "destination", "relay", "refused"))))
def test_of_several_causes_each_is_named_once_the_first_by_the_order(causes: set[str]) -> None:
    reason = "; ".join([*([AWAY] if "destination" in causes else []), *([REFUSED] if "refused" in causes else [])])
    relay = IN_ORDER._replace(state="error" if "relay" in causes else "active", reason=reason)
    pause, ahead = PAUSE if "pause" in causes else None, WAITS if "key" in causes else None
    answer = why(FAILED if "backoff" in causes else EVENT, facts(relay, pause=pause, ahead=ahead))
    named = [reason.cause for reason in (answer.first, *answer.also)]
    assert named == ([cause for cause in _ORDER if cause in causes] or ["due"])


@given(
    st.dictionaries(
        st.from_regex(r"destination [A-Za-z][\w.-]{0,20}", fullmatch=True),
        st.tuples(st.sampled_from(["slow", "blocked", "away", "refused"]), st.text("abc; :.", max_size=20)),
        max_size=4,
    ),
    st.lists(st.sampled_from([REFUSED, "no answer for event types a (b)"]), unique=True),
)
def test_what_a_heartbeat_says_of_destinations_is_read_back(
    states: dict[str, tuple[str, str]], beside: list[str]
) -> None:
    since = "2026-03-10T11:00:00Z"
    troubles = {title: f"{state} since {since}: {reason}" for title, (state, reason) in states.items()}
    text = heartbeat_reason(troubles, beside)
    assert [one for one in reasons_beside(text) if one] == beside
    read = {f"destination {one.name}": (one.state, one.reason) for one in conditions_in(text)}
    assert read.keys() == states.keys()
    assert [(state, reason.rstrip("; ")) for state, reason in read.values()] == [
        (state, reason.rstrip("; ")) for state, reason in states.values()
    ]
