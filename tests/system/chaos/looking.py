"""What a chaos test looks at afterwards: the table, the broker's messages and the relay's log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import psycopg

from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until
from tests.system.chaos.load import Writers

_WATCH = """
CREATE TABLE setbacks (event_id UUID, status TEXT, was INT, attempts INT, last_error TEXT);
CREATE FUNCTION note_setback() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO setbacks VALUES (NEW.event_id, NEW.status, OLD.attempts, NEW.attempts, NEW.last_error);
    RETURN NULL;
END $$;
CREATE TRIGGER note_setback AFTER UPDATE ON openoutbox_events FOR EACH ROW
WHEN (OLD.status = 'DELIVERING' AND NEW.status IN ('PENDING', 'DEAD')) EXECUTE FUNCTION note_setback();
GRANT INSERT ON setbacks TO PUBLIC; -- the relay's own rights are what it runs with
"""
_WRONG_ATTEMPTS = """
SELECT count(*) FROM openoutbox_events AS event WHERE attempts <> (
    SELECT count(*) FROM setbacks WHERE setbacks.event_id = event.event_id AND setbacks.attempts > was
)
"""


@dataclass(frozen=True, slots=True)
class Balance:
    """What was committed against what arrived."""

    committed: int
    lost: int
    phantoms: int
    """Messages of events that were rolled back or never inserted."""
    duplicates: int

    @classmethod
    def of(cls, writers: Writers, received: Counter[str]) -> Balance:
        """For all that these writers did."""
        return cls(
            len(writers.committed),
            len(writers.committed - received.keys()),
            len(received.keys() - writers.committed),
            received.total() - len(received),
        )

    def check(self) -> None:
        """Nothing lost, nothing that should not be there."""
        assert self.committed > 0
        assert (self.lost, self.phantoms) == (0, 0)


def watch_setbacks(outbox: Outbox) -> None:
    """Have the table note every event that goes back or dies."""
    with outbox.database.connect() as connection:
        connection.execute(_WATCH.encode())


def setbacks(outbox: Outbox, where: str) -> int:
    """How many of them there were."""
    return int(outbox.database.run(f"SELECT count(*) FROM setbacks WHERE {where}")[0][0])


def check_attempts(outbox: Outbox) -> None:
    """Every event has as many attempts as it had failures; needs ``watch_setbacks``."""
    assert outbox.database.run(_WRONG_ATTEMPTS) == [(0,)]


def check_finished(outbox: Outbox) -> None:
    """Every event is DELIVERED, and no lock is left."""
    assert set(outbox.counts()) == {"DELIVERED"}
    outbox.check_invariants()


def delivered(outbox: Outbox) -> int:
    return outbox.counts().get("DELIVERED", 0)


def first_delivery_after(outbox: Outbox, moment: float, deadline: float, where: str = "TRUE") -> float:
    """Seconds from ``moment`` (epoch) to the first delivery after it, by the database's clock on the same machine."""
    query = (
        "SELECT extract(epoch FROM min(delivered_at)) FROM openoutbox_events "
        f"WHERE delivered_at > to_timestamp(%s) AND {where}"
    )

    def seconds() -> list[float]:
        try:
            [(found,)] = outbox.database.run(query, [moment])
        except psycopg.OperationalError:  # it may still be recovering
            return []
        return [] if found is None else [float(found) - moment]

    return wait_until(seconds, deadline, "a delivery")[0]


def seconds_until(predicate: Callable[[], bool], deadline: float, what: str) -> float:
    """How long it took until something became true."""
    started = time.monotonic()
    wait_until(predicate, deadline, what)
    return time.monotonic() - started


def log_lines(relay: Daemon, since: float, until: float) -> tuple[int, int]:
    """Lines of the log between two moments (epoch): in all, and in their busiest second."""
    times = [datetime.fromisoformat(line["ts"]).timestamp() for line in relay.log_lines()]
    within = [moment for moment in times if since <= moment <= until]
    busiest = Counter(int(moment - since) for moment in within)
    return len(within), max(busiest.values(), default=0)
