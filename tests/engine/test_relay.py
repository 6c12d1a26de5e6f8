"""The relay starts when the database is there, ends with a loop that dies, and stops in order and in time."""

from __future__ import annotations

import asyncio

import pytest

from relay.core.errors import SchemaError, StorageError, StorageUnavailable
from relay.core.outcome import ACKNOWLEDGED
from relay.engine.relay import LoopDied
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine
from tests.support.virtual_time import virtual_sleep


def ended(one: VirtualRelay) -> BaseException | None:
    """How the relay's task ended."""
    one.loop.run_until_complete(asyncio.wait({one.task}))
    error = one.task.exception()
    one.task = one.loop.create_task(asyncio.sleep(0))
    return error


def fail_open(one: VirtualRelay, *errors: Exception) -> None:
    waiting = list(errors)

    async def open_storage() -> None:
        if waiting:
            raise waiting.pop(0)

    one.storage.open = open_storage  # type: ignore[method-assign]


def test_a_database_that_is_not_there_yet_is_waited_for(engine: MakeEngine) -> None:
    one = engine()
    fail_open(one, StorageUnavailable("away"), SchemaError("not migrated yet", "42P01"), StorageUnavailable("away"))
    one.insert(5)
    one.run(0.1)
    assert one.relay.health.storage_error == "away"
    one.run(10.0)
    assert one.counts() == {"DELIVERED": 5}


def test_a_table_that_can_never_be_worked_on_ends_the_relay(engine: MakeEngine) -> None:
    one = engine()
    fail_open(one, SchemaError("the table is partitioned"))
    assert isinstance(ended(one), SchemaError)


def test_a_loop_that_dies_ends_the_relay_and_says_which(engine: MakeEngine) -> None:
    one = engine()

    async def broken(*_arguments: object, **_named: object) -> None:
        raise RuntimeError("a bug")

    one.storage.claim = broken  # type: ignore[method-assign, assignment]
    error = ended(one)
    assert isinstance(error, LoopDied)
    assert str(error) == "the claim loop ended"
    assert isinstance(error.__cause__, RuntimeError)


def test_lost_wake_ups_are_listened_for_again(engine: MakeEngine) -> None:
    class Broken:
        listens, problem = 0, "lost"

        async def listen(self, _wake: object) -> None:
            self.listens += 1
            raise StorageError("lost")

    wake_ups = Broken()
    one = engine(wake_ups=wake_ups)
    one.insert(5)
    one.run(60.0)
    assert 5 <= wake_ups.listens <= 15
    assert one.relay.degraded() == {"wake-up": "lost"}
    assert one.counts() == {"DELIVERED": 5}


def test_a_stop_lets_the_broker_answer_and_claims_nothing_more(engine: MakeEngine) -> None:
    one = engine()
    one.broker.hold()
    one.insert(10)
    one.run(1.0)  # a claim that is under way at the stop would bring what comes later
    assert len(one.broker.held) == 10
    one.do(one.relay.stop)
    one.insert(10, "later")
    one.run(1.0)
    assert not one.task.done()
    one.do(one.broker.answer)
    assert one.until(one.task.done, 8.0) < 0.5
    assert one.counts() == {"DELIVERED": 10, "PENDING": 10}


@pytest.mark.parametrize("hangs", [False, True])
def test_a_stop_releases_what_has_no_answer_within_its_time(engine: MakeEngine, hangs: bool) -> None:
    class Stubborn(MemoryPublisher):
        async def abandon(self, reason: str) -> None:
            if hangs:
                await asyncio.Event().wait()
            await super().abandon(reason)

        async def close(self) -> None:
            pass

    one = engine(Stubborn(), shutdown_timeout=8.0)
    one.broker.hold()
    one.insert(10)
    one.until(lambda: len(one.broker.held) == 10)
    one.do(one.relay.stop)
    assert one.until(one.task.done, 8.0) <= 0.8 * 8.0
    assert one.counts() == ({"DELIVERING": 10} if hangs else {"PENDING": 10})
    assert {row.attempts for row in one.table.rows.values()} == {0}


def test_a_claim_under_way_at_the_stop_is_not_lost(engine: MakeEngine) -> None:
    one = engine(shutdown_timeout=8.0)
    claim = one.storage.claim

    async def slow(*arguments: object, **named: object) -> object:
        claimed = await claim(*arguments, **named)  # type: ignore[arg-type]
        await virtual_sleep(1.0)
        return claimed

    one.storage.claim = slow  # type: ignore[method-assign, assignment]
    one.insert(10)
    one.until(lambda: one.counts() == {"DELIVERING": 10})
    one.do(one.relay.stop)
    one.until(one.task.done, 8.0)
    assert one.counts() == {"DELIVERED": 10}


def test_a_stop_while_the_database_is_away_ends_in_time(engine: MakeEngine) -> None:
    one = engine(shutdown_timeout=8.0)
    one.broker.hold()
    one.insert(10)
    one.until(lambda: len(one.broker.held) == 10)
    one.storage.gone = True
    one.do(lambda: one.broker.answer(ACKNOWLEDGED))
    one.do(one.relay.stop)
    assert one.until(one.task.done, 8.0) <= 0.8 * 8.0
    assert one.counts() == {"DELIVERING": 10}
