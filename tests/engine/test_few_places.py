"""MAX_IN_FLIGHT far below BATCH_SIZE: one event that stays in flight does not stop the claims."""

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
