"""Few places, or few bytes: what stays in flight does not stop the claims of the rest."""

from __future__ import annotations

from relay.core.outcome import ACKNOWLEDGED
from tests.support.fixtures.engine import MakeEngine


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
