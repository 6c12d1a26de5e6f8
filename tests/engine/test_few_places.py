"""Few places, or few bytes: what stays in flight does not stop the claims of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from relay.core.errors import StorageTimeout
from relay.core.event import Claim, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Outcome
from relay.core.telemetry import RelayState
from tests.support.fixtures.engine import MakeEngine
from tests.support.virtual_time import virtual_sleep


def test_one_event_without_an_answer_leaves_the_other_places(engine: MakeEngine) -> None:
    one = engine(batch_size=50, max_in_flight=8)
    one.broker.answer_with(lambda event: None if event.event_type == "mute" else ACKNOWLEDGED)
    one.insert(1, "mute")
    one.insert(2)
    one.until(lambda: one.delivered() == 2)
    one.insert(20)
    one.until(lambda: one.delivered() == 22, seconds=5.0)


def test_a_destination_that_does_not_answer_leaves_bytes_to_the_others(engine: MakeEngine) -> None:
    one = engine(batch_size=10, max_in_flight=200, batch_bytes=1_000_000)
    one.broker.answer_with(lambda event: None if event.event_type == "slow" else ACKNOWLEDGED)
    one.insert(40, "slow", payload=b"x" * 100_000)
    one.run(5.0)
    assert 5 <= len(one.broker.held) <= 8
    worst = 0.0
    for number in range(50):
        one.insert(3, payload=b"y" * 10_000)
        worst = max(worst, one.until(lambda: one.delivered() == 3 * number + 3, 10.0))  # noqa: B023 - called at once
    assert worst < 0.6


def test_answers_that_trickle_in_leave_places_to_the_others(engine: MakeEngine) -> None:
    """There is always some room for all, and more of the slow events for it, which are older. Three come together."""
    one = engine(batch_size=3, max_in_flight=80, poll_interval=0.5)
    turns = iter([3.0 + 0.25 * (number // 3) for number in range(60)] + [5.0] * 600)

    def answer(event: OutboxEvent) -> Outcome | None:
        if event.event_type != "slow":
            return None if event.event_type == "mute" else ACKNOWLEDGED
        one.loop.call_later(next(turns), one.broker.answer, ACKNOWLEDGED, event.event_id)
        return None

    one.broker.answer_with(answer)
    one.insert(600, "slow")
    one.run(1.9)
    one.insert(1, "mute")  # takes a place of the last quarter, so that three fit with two left
    one.run(8.0)
    worst = 0.0
    for number in range(20):
        one.insert(1)
        worst = max(worst, one.until(lambda: one.delivered() > number, 60.0))  # noqa: B023 - called at once
        one.run(1.0)
    assert worst < 1.0
    assert 200 < one.delivered("slow") < 600, "it has its share as before"


def test_one_whose_answers_come_in_half_a_second_keeps_its_backlog_to_itself(engine: MakeEngine) -> None:
    """It is never late, and each batch of it takes all the bytes that it may."""
    one = engine(batch_size=10, max_in_flight=80, batch_bytes=1_000_000, poll_interval=0.5)

    def answer(event: OutboxEvent) -> Outcome | None:
        if event.event_type != "soon":
            return ACKNOWLEDGED
        one.loop.call_later(0.45, one.broker.answer, ACKNOWLEDGED, event.event_id)
        return None

    one.broker.answer_with(answer)
    one.insert(400, "soon", payload=b"x" * 64_000)
    one.run(1.0)
    before = one.telemetry.ops["claim", True]
    one.run(4.5)
    assert one.telemetry.ops["claim", True] - before < 150, "each takes 2 ms: a twentieth of the time, and its own"
    worst = 0.0
    for number in range(10):
        one.insert(1)
        worst = max(worst, one.until(lambda: one.delivered() > number, 60.0))  # noqa: B023 - called at once
        one.run(1.0)
    assert worst < 0.5
    one.run(2.0)
    assert one.delivered("soon") > 200, "it goes on as before"


def test_a_claim_that_finds_too_much_to_look_past_is_no_fault_of_the_database(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = engine(batch_size=10, max_in_flight=80, batch_bytes=1_000_000, poll_interval=0.5)
    claim = one.storage.claim

    async def claim_or_time_out(*arguments: Any, control: bool = False) -> Claim:
        if arguments[3]:  # leaves a destination out
            await virtual_sleep(0.1)
            raise StorageTimeout("claiming: no answer within 0.1 s")
        return await claim(*arguments, control=control)

    def answer(event: OutboxEvent) -> None:
        one.loop.call_later(0.45, one.broker.answer, ACKNOWLEDGED, event.event_id)

    monkeypatch.setattr(one.storage, "claim", claim_or_time_out)
    one.broker.answer_with(answer)
    one.insert(100, "soon", payload=b"x" * 64_000)
    while one.delivered("soon") < 100:
        one.run(0.1)
        assert one.loop.time() < 8.0, "it goes on as before"
        assert one.relay.health.state is RelayState.ACTIVE
