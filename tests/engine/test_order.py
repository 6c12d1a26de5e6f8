"""Of each key one event is with the broker; those behind it wait, and are taken out once at most."""

from __future__ import annotations

from relay.core.event import EventId, OutboxEvent
from relay.engine.order import KeyQueues, Order


def event(name: str) -> OutboxEvent:
    """``a1``: the first event of key ``a``; ``-1`` has no key."""
    key = None if name[0] == "-" else name[0]
    return OutboxEvent(EventId(name), "t", key, b"", "{}", 0, 0.0)


def events(names: str) -> list[OutboxEvent]:
    return [event(name) for name in names.split()]


def made(names: str) -> tuple[KeyQueues, str]:
    """Queues of these events, and those that may be offered at once."""
    queues = KeyQueues(Order.SINGLES)
    return queues, text(queues.hold_back(events(names)))


def text(events: list[OutboxEvent]) -> str:
    return " ".join(one.event_id for one in events)


def test_the_first_of_each_key_and_every_event_without_one_may_go() -> None:
    queues, first = made("a1 b1 -1 a2 -2 b2 a3")
    assert first == "a1 b1 -1 -2"
    assert sorted(queues.ids()) == ["a2", "a3", "b2"]
    assert len(queues) == 3


def test_an_empty_key_is_a_key() -> None:
    queues = KeyQueues(Order.SINGLES)
    nameless = [OutboxEvent(EventId(str(n)), "t", "", b"", "{}", 0, 0.0) for n in range(2)]
    assert queues.hold_back(nameless) == nameless[:1]
    assert queues.next_after(nameless[:1]) == nameless[1:]


def test_an_acknowledgement_lets_the_next_one_go() -> None:
    queues, _ = made("a1 a2 a3 b1 b2 -1")
    assert text(queues.next_after(events("a1 -1"))) == "a2"
    assert text(queues.next_after(events("a2 b1"))) == "a3 b2"
    assert text(queues.next_after(events("a3 b2"))) == ""
    assert not queues


def test_anything_else_ends_the_run_of_that_key() -> None:
    queues, _ = made("a1 a2 a3 b1 b2")
    assert queues.end(event("a1")) == ["a2", "a3"]
    assert queues.end(event("a1")) == []
    assert queues.end(event("-1")) == []
    assert queues.ids() == ["b2"]
    assert queues.end_all() == ["b2"]
    assert not queues


def test_what_is_behind_a_lost_event_is_stranded() -> None:
    queues, _ = made("a1 a2 a3 a4 b1 b2 c1 c2")
    assert queues.drop({EventId("a3"), EventId("c2"), EventId("b1")}) == ["a4"]
    assert sorted(queues.ids()) == ["a2", "b2"]
    assert text(queues.next_after(events("a1"))) == "a2"
    assert text(queues.next_after(events("a2 c1"))) == ""


def test_a_run_goes_together_and_the_next_one_once_all_of_it_is_acknowledged() -> None:
    queues = KeyQueues(Order.RUNS)
    failed_before = event("a3")._replace(last_code="LEADER")
    elsewhere = [event(name)._replace(event_type="elsewhere") for name in ("a5", "a6")]
    claimed = [*events("a1 b1 a2 -1"), failed_before, *events("a4 b2"), *elsewhere]
    assert text(queues.hold_back(claimed)) == "a1 b1 a2 -1 b2"
    assert text(queues.next_after(events("a2 b1 b2 -1"))) == ""
    assert text(queues.next_after(events("a1"))) == "a3"
    assert text(queues.next_after([failed_before])) == "a4"
    assert text(queues.next_after(events("a4"))) == "a5 a6"
    assert not queues


def test_the_empty_key_goes_one_at_a_time_although_runs_are_kept() -> None:
    queues = KeyQueues(Order.RUNS)
    nameless = [OutboxEvent(EventId(str(n)), "t", "", b"", "{}", 0, 0.0) for n in range(2)]
    assert queues.hold_back(nameless) == nameless[:1]


def test_a_failure_ends_the_run_and_what_waits_behind_it() -> None:
    queues = KeyQueues(Order.RUNS)
    claimed = [*events("a1 a2"), *[event(name)._replace(event_type="elsewhere") for name in ("a3", "a4")]]
    queues.hold_back(claimed)
    assert queues.end(event("a2")) == ["a3", "a4"]
    assert text(queues.next_after(events("a1"))) == ""
