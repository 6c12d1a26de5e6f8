"""Each SQLSTATE of a database in trouble, raised at each statement of the relay, on a real table with writers.

A trigger raises it three times in a row and then lets the statement through. The relay's next step is right when
every event ends as the broker's answers say: offered once, settled once, no attempt too many or too few.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest

from relay.core.event import OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Outcome, Permanent, Transient
from relay.core.telemetry import RelayState
from tests.engine.conftest import Running, StartRelay, start
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually
from tests.system.chaos.load import Writers

__all__ = ["start"]

pytestmark = pytest.mark.timeout(120)

AWAY = ("53100", "57P01", "25006")
"""Disk full, shutting down, read-only: from a trigger, and so tried out, they are not yet the database's."""
BUSY = ("40001", "40P01", "55P03", "57014")
"""Serialization, deadlock, lock, cancelled: rolled back, and simply done again."""
TIMES = 2
"""Failures of each case: a third in a row would be reported, whatever its reason."""
LEASE = 3.0

_TROUBLE = """
CREATE SEQUENCE troubles;
CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    kind TEXT := CASE
        WHEN OLD.status = 'PENDING' AND NEW.status = 'DELIVERING' THEN 'claim'
        WHEN OLD.status = 'DELIVERING' AND NEW.status = 'DELIVERING' THEN 'renew'
        WHEN NEW.status = 'DELIVERED' THEN 'deliver'
        WHEN NEW.attempts = OLD.attempts THEN 'release'
        WHEN NEW.last_error LIKE 'LEASE_EXPIRED%%' THEN 'reap'
        WHEN NEW.status = 'DEAD' THEN 'bury'
        ELSE 'retry'
    END;
BEGIN
    IF kind = TG_ARGV[0] AND nextval('troubles') <= TG_ARGV[2]::int THEN
        RAISE 'no % now', kind USING ERRCODE = TG_ARGV[1];
    END IF;
    RETURN NEW;
END $$;
GRANT USAGE ON SEQUENCE troubles TO PUBLIC;
"""
_STUCK = """
UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'gone', locked_at = now() - interval '1 hour'
WHERE event_type = 'special'
"""


@dataclass
class Case:
    """What one statement is tried with."""

    outbox: Outbox
    broker: MemoryPublisher
    start: Callable[[], Awaitable[Running]]
    special: str
    writers: Writers

    async def until_alone(self) -> None:
        """Until nothing else is inserted, and all else is delivered."""
        self.writers.stop()
        others = "SELECT bool_and(status = 'DELIVERED') FROM openoutbox_events WHERE event_type = 'other'"
        await eventually(lambda: self.outbox.database.run(others) == [(True,)], what="the others to be delivered")

    async def until_settled(self, status: str) -> None:
        await eventually(lambda: self.outbox.row(self.special)["status"] == status, what=f"the event to be {status}")

    def answer_special(self, outcome: Outcome | None) -> None:
        def script(event: OutboxEvent) -> Outcome | None:
            return outcome if event.event_type == "special" else ACKNOWLEDGED

        self.broker.answer_with(script)

    def is_row(self, status: str, attempts: int, error: str | None) -> None:
        row = self.outbox.row(self.special)
        assert (row["status"], row["attempts"], row["last_error"]) == (status, attempts, error)


async def claim(case: Case) -> Running:
    running = await case.start()
    await case.until_settled("DELIVERED")
    case.is_row("DELIVERED", 0, None)
    return running


async def retry(case: Case) -> Running:
    case.answer_special(Transient("LEADER", "changed"))
    running = await case.start()
    await eventually(lambda: case.outbox.row(case.special)["attempts"] != 0)
    case.is_row("PENDING", 1, "LEADER: changed")
    return running


async def bury(case: Case) -> Running:
    case.answer_special(Permanent("TOO_LARGE", "11 MiB"))
    running = await case.start()
    await case.until_settled("DEAD")
    case.is_row("DEAD", 1, "TOO_LARGE: 11 MiB")
    return running


async def release(case: Case) -> Running:
    case.answer_special(None)
    running = await case.start()
    await eventually(lambda: any(event.event_type == "special" for event in case.broker.held))
    # Of two rows that fail one after the other, with no third one to try, the database is to blame: state 3.
    await case.until_alone()
    case.broker.down()
    await case.until_settled("PENDING")
    case.is_row("PENDING", 0, None)
    case.answer_special(ACKNOWLEDGED)
    case.broker.up()
    await case.until_settled("DELIVERED")
    case.is_row("DELIVERED", 0, None)
    return running


async def renew(case: Case) -> Running:
    case.answer_special(None)
    running = await case.start()
    await eventually(lambda: case.outbox.row(case.special)["locked_at"] is not None)
    claimed_at = case.outbox.row(case.special)["locked_at"]
    await eventually(lambda: running.telemetry.ops["renew", False] >= TIMES)
    await eventually(lambda: case.outbox.row(case.special)["locked_at"] not in (None, claimed_at))
    case.broker.answer()
    await case.until_settled("DELIVERED")
    case.is_row("DELIVERED", 0, None)
    return running


async def reap(case: Case) -> Running:
    case.outbox.database.run(_STUCK)
    running = await case.start()
    await eventually(lambda: case.outbox.row(case.special)["attempts"] != 0)
    row = case.outbox.row(case.special)
    assert (row["status"], row["attempts"]) == ("PENDING", 1)
    assert str(row["last_error"]).startswith("LEASE_EXPIRED: lease of gone expired")
    return running


STATEMENTS = {
    "claim": (claim, "claim"),
    "deliver": (claim, "mark_delivered"),
    "retry": (retry, "mark_failed"),
    "bury": (bury, "mark_failed"),
    "release": (release, "release"),
    "renew": (renew, "renew"),
    "reap": (reap, "reap"),
}


@pytest.fixture
def writers(outbox: Outbox) -> Iterator[Writers]:
    with Writers(outbox.url, "other", per_second=100) as writers:
        yield writers


# A state is a hint for the first guess: both kinds at the claim, and one at each other statement, in turn. The soak has
# both kinds at each statement, and each state at the claim.
SOME = [
    ("claim", AWAY[0]),
    *((statement, (AWAY, BUSY)[number % 2][number % 3]) for number, statement in enumerate(STATEMENTS, 1)),
]
MANY = [
    *(("claim", state) for state in AWAY + BUSY),
    *(
        (statement, state)
        for number, statement in enumerate(STATEMENTS)
        for state in (AWAY[number % 3], BUSY[number % 4])
    ),
]


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        *SOME,
        *(pytest.param(*case, marks=pytest.mark.soak) for case in dict.fromkeys(MANY) if case not in SOME),
    ],
)
async def test_the_next_step_is_right(
    outbox: Outbox, start: StartRelay, writers: Writers, statement: str, state: str
) -> None:
    with outbox.database.connect() as connection:
        connection.execute(_TROUBLE.replace("%%", "%").encode())
        arguments = f"'{statement}', '{state}', '{TIMES}'"
        connection.execute(
            "CREATE TRIGGER trouble BEFORE UPDATE ON openoutbox_events FOR EACH ROW "
            f"EXECUTE FUNCTION trouble({arguments})"
        )
    [special] = outbox.insert([Row("special")])
    broker = MemoryPublisher()
    story, op = STATEMENTS[statement]
    case = Case(outbox, broker, lambda: start(broker, lease_timeout=LEASE), special, writers)
    running = await story(case)
    await case.until_alone()
    # The released event was offered twice, and taken once: there, what the broker has is what counts.
    seen = [event.event_id for event in (broker.messages if statement == "release" else broker.offered)]
    assert len(seen) == len(set(seen)), "an event was offered twice"
    assert set(seen) - {special} == writers.committed
    assert outbox.rows("max(attempts) FILTER (WHERE event_type = 'other')") == [(0,)]
    assert outbox.database.run("SELECT last_value > %s FROM troubles", [TIMES]) == [(True,)]
    assert running.telemetry.ops[op, False] >= TIMES
    assert running.telemetry.counts["leases_lost"] == 0
    assert RelayState.ERROR not in [reported for reported, _ in running.telemetry.states[1:]]
    await eventually(lambda: running.relay.health.state is RelayState.ACTIVE)
    outbox.check_invariants()
