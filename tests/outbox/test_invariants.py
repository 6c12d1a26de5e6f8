"""The nine invariants of the contract and its transition table, under random histories on a real PostgreSQL.

Three relays, two of which share one RELAY_ID, claim, renew, settle, release and reap at random, with fences that may
be long gone; an operator replays; time passes by moving every row into the past. After each step every row is
compared with what it was: exactly the rows the model expects have changed, each by a transition of
``tests.outbox.transitions``, and in exactly the columns that this transition may touch.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, Fence, Status
from relay.core.storage import Settlement
from relay.outbox.storage import PostgresOutbox
from tests.outbox.transitions import ALLOWED, Transition
from tests.support.fixtures.outbox import Outbox
from tests.support.options import storage_options

LEASE: Final = 1000.0
RETRY: Final = RetryPolicy(max_attempts=3, base_delay=50.0, max_delay=400.0, jitter=0.2)
MOST: Final = 5  # events of one claim
RELAY_IDS: Final = ("twin", "twin", "other")
NEVER_CHANGE: Final = ("event_type", "payload", "created_at", "partition_key", "headers")
MAY_CHANGE: Final = {
    Transition.CLAIM: {"status", "locked_by", "locked_at"},
    Transition.RENEW: {"locked_at"},
    Transition.DELIVER: {"status", "locked_by", "locked_at", "delivered_at"},
    Transition.RETRY: {"status", "locked_by", "locked_at", "attempts", "last_error", "available_at"},
    Transition.BURY: {"status", "locked_by", "locked_at", "attempts", "last_error"},
    Transition.RELEASE: {"status", "locked_by", "locked_at"},
    Transition.REAP: {"status", "locked_by", "locked_at", "attempts", "last_error", "available_at"},
    Transition.REPLAY: {"status", "attempts", "last_error", "delivered_at", "available_at"},
}
VERDICTS: Final = (Transition.DELIVER, Transition.RETRY, Transition.BURY, Transition.RELEASE)
WHICH: Final = st.integers(0, 99)
"""Of what there is, modulo how much there is."""
KINDS: Final = st.lists(st.sampled_from([*VERDICTS, None]), min_size=MOST, max_size=MOST)
"""For the events of a lease, one each."""
FAILURES: Final = {Transition.RETRY, Transition.BURY, Transition.REAP}
BROKEN: Final = """
SELECT * FROM openoutbox_events
WHERE (status = 'DELIVERING') <> (locked_at IS NOT NULL) OR (status = 'DELIVERING') <> (locked_by IS NOT NULL)
   OR (status = 'DELIVERED') <> (delivered_at IS NOT NULL) OR attempts < 0
"""
DUE: Final = """
SELECT event_id::text, attempts >= 2 AND last_error LIKE 'LEASE_EXPIRED:%' FROM openoutbox_events
WHERE status = 'PENDING' AND available_at <= now() ORDER BY available_at, created_at
"""
INSERT: Final = """
INSERT INTO openoutbox_events (event_id, event_type, payload, available_at)
VALUES (%s, 't', 'p', now() + make_interval(secs => %s))
"""
REPLAY: Final = """
UPDATE openoutbox_events
SET status = 'PENDING', attempts = 0, last_error = NULL, delivered_at = NULL, available_at = now(), updated_at = now()
WHERE event_id = ANY(%s::uuid[]) AND status IN ('DELIVERED', 'DEAD')
"""
ADVANCE: Final = """
UPDATE openoutbox_events SET
    available_at = available_at - d, locked_at = locked_at - d, delivered_at = delivered_at - d,
    created_at = created_at - d, updated_at = updated_at - d
FROM make_interval(secs => %s) AS d
"""

Rows = dict[EventId, dict[str, Any]]


@dataclass(slots=True)
class Lease:
    """What one claim returned, kept after it is gone."""

    relay: int
    fence: Fence
    ids: list[EventId]


class Machine(RuleBasedStateMachine):
    """One random history. The table is emptied before it.

    What is drawn never depends on what the database did: of delays with a random part, or rows that no order tells
    apart, it does not do the same twice, and a history that is drawn again would not fit to what it was.
    """

    def __init__(self, connection: psycopg.Connection[Any], relays: list[PostgresOutbox], loop: asyncio.Runner) -> None:
        super().__init__()
        self.connection, self.relays, self.loop = connection, relays, loop
        connection.execute("TRUNCATE openoutbox_events")
        self.inserted = 0
        self.rows: Rows = {}
        self.leases: list[Lease] = []
        self.holder: dict[EventId, Lease] = {}

    @rule(count=st.integers(1, 4), due_in=st.sampled_from([0.0, 0.0, 300.0]))
    def insert(self, count: int, due_in: float) -> None:
        for _ in range(count):
            self.inserted += 1  # ids are counted, so that a history can be run again
            self.connection.execute(INSERT, (uuid.UUID(int=self.inserted), due_in))
        self.rows = self.snapshot()

    @rule(relay=st.integers(0, 2), limit=st.integers(1, MOST))
    def claim(self, relay: int, limit: int) -> None:
        due = self.connection.execute(DUE).fetchall()
        claim = self.loop.run(self.relays[relay].claim(limit, 1 << 30))
        together = list(itertools.takewhile(lambda row: not row[1], due[:limit])) or due[:1]
        assert [event.event_id for event in claim.events] == [one for one, _ in together]
        if claim.fence is not None:
            lease = Lease(relay, claim.fence, [event.event_id for event in claim.events])
            self.leases.append(lease)
            self.holder |= dict.fromkeys(lease.ids, lease)
            self.changed(dict.fromkeys(lease.ids, Transition.CLAIM))
            assert {self.rows[one]["locked_by"] for one in lease.ids} == {RELAY_IDS[relay]}

    @rule(which=WHICH)
    def renew(self, which: int) -> None:
        if not self.leases:
            return
        lease = self.leases[which % len(self.leases)]
        held = {one for one in lease.ids if self.holder.get(one) is lease}
        renewal = self.loop.run(self.relays[lease.relay].renew(lease.fence, lease.ids))
        assert renewal.held == held
        assert (renewal.fence > lease.fence) is bool(held)
        lease.fence = renewal.fence
        self.changed(dict.fromkeys(held, Transition.RENEW))

    @rule(which=WHICH, kinds=KINDS, relay=st.sampled_from([None, None, 0, 1, 2]))
    def settle(self, which: int, kinds: list[Transition | None], relay: int | None) -> None:
        if not self.leases:
            return
        lease = self.leases[which % len(self.leases)]
        verdicts = {one: kind for one, kind in zip(lease.ids, kinds, strict=False) if kind is not None}
        self.write(lease, lease.relay if relay is None else relay, verdicts)

    @rule(which=WHICH, verdict=st.sampled_from(VERDICTS))
    def settle_too_late(self, which: int, verdict: Transition) -> None:
        if not self.holder:
            return
        lease = self.holder[sorted(self.holder)[which % len(self.holder)]]
        self.lose_every_lease_to(lease.relay, lease.relay)
        self.write(lease, lease.relay, dict.fromkeys(lease.ids, verdict))

    def write(self, lease: Lease, settler: int, verdicts: dict[EventId, Transition]) -> None:
        """Settle, and expect just what the lease still holds to change."""
        ours = RELAY_IDS[settler] == RELAY_IDS[lease.relay]
        expected = {one: kind for one, kind in verdicts.items() if ours and self.holder.get(one) is lease}

        def of(kind: Transition) -> list[EventId]:
            return [one for one, verdict in verdicts.items() if verdict is kind]

        settlement = Settlement(
            lease.fence,
            delivered=of(Transition.DELIVER),
            retried=[(one, "BROKER: busy", 30.0) for one in of(Transition.RETRY)],
            buried=[(one, "TOO_LARGE: no") for one in of(Transition.BURY)],
            released=of(Transition.RELEASE),
        )
        (settled,) = self.loop.run(self.relays[settler].settle([settlement]))
        assert settled[:4] == tuple(list(expected.values()).count(kind) for kind in VERDICTS)
        assert not settled.locked | settled.kept
        self.changed(expected)

    @rule(relay=st.integers(0, 2), limit=st.integers(1, 3))
    def reap(self, relay: int, limit: int) -> None:
        rows = self.connection.execute(
            "SELECT event_id::text FROM openoutbox_events WHERE locked_at < now() - make_interval(secs => %s)", [LEASE]
        ).fetchall()
        expired = {one for (one,) in rows}
        reaped = self.loop.run(self.relays[relay].reap(limit))
        taken = {one for one, row in self.snapshot().items() if row != self.rows[one]}
        assert taken <= expired
        assert len(taken) == reaped.total == min(limit, len(expired))
        dead = sum(RETRY.exhausted(self.rows[one]["attempts"] + 1) for one in taken)
        assert reaped.buried == dead
        self.changed(dict.fromkeys(taken, Transition.REAP))

    @rule(several=st.lists(WHICH, max_size=3))
    def replay(self, several: list[int]) -> None:
        known = sorted(self.rows)
        chosen = [known[which % len(known)] for which in several if known]
        finished = {one for one in chosen if self.rows[one]["status"] in {Status.DELIVERED, Status.DEAD}}
        self.connection.execute(REPLAY, [chosen])
        self.changed(dict.fromkeys(finished, Transition.REPLAY))

    @rule(seconds=st.sampled_from([100.0, 600.0, 1100.0]))
    def advance(self, seconds: float) -> None:
        self.connection.execute(ADVANCE, [seconds])
        for lease in self.leases:
            lease.fence = Fence(lease.fence - timedelta(seconds=seconds))
        self.rows = self.snapshot()

    @rule(reaper=st.integers(0, 2), claimer=st.integers(0, 2))
    def lose_every_lease_to(self, reaper: int, claimer: int) -> None:
        """What chance rarely lines up: leases expire, are reaped, and the same events are claimed again."""
        self.advance(LEASE + 100.0)
        self.reap(reaper, 1000)
        self.advance(RETRY.max_delay * 2)
        self.claim(claimer, MOST)

    @invariant()
    def locks_and_delivery_times_are_set_exactly_when_they_should_be(self) -> None:
        assert self.connection.execute(BROKEN).fetchall() == []

    @invariant()
    def the_database_and_the_model_agree_on_who_holds_what(self) -> None:
        delivering = {one for one, row in self.rows.items() if row["status"] == Status.DELIVERING}
        assert delivering == set(self.holder)

    def changed(self, expected: dict[EventId, Transition]) -> None:
        """Exactly these rows have changed since the last look, each as its transition says."""
        after = self.snapshot()
        different = {one for one, row in after.items() if row != self.rows[one]}
        assert different == set(expected)
        for one, transition in expected.items():
            check(self.rows[one], after[one], transition)
            if transition not in {Transition.CLAIM, Transition.RENEW}:
                self.holder.pop(one, None)
        self.rows = after

    def snapshot(self) -> Rows:
        with self.connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            cursor.execute("SELECT *, event_id::text AS event_id FROM openoutbox_events")
            return {row["event_id"]: row for row in cursor.fetchall()}


def check(before: dict[str, Any], after: dict[str, Any], transition: Transition) -> None:
    """One row's one transition."""
    assert Status(after["status"]) in ALLOWED[Status(before["status"]), transition]
    touched = {name for name in before if before[name] != after[name]}
    assert touched <= MAY_CHANGE[transition] | {"updated_at"}
    assert "updated_at" in touched
    assert not touched.intersection(NEVER_CHANGE)
    if transition in FAILURES:
        assert after["attempts"] == before["attempts"] + 1
        assert after["last_error"]
        if after["status"] == Status.PENDING:
            assert after["available_at"] > after["updated_at"]
    if transition is Transition.REAP:
        assert (after["status"] == Status.DEAD) is RETRY.exhausted(after["attempts"])
    if transition is Transition.REPLAY:
        assert (after["attempts"], after["last_error"], after["available_at"]) == (0, None, after["updated_at"])


def _close(loop: asyncio.Runner, relays: Iterable[PostgresOutbox]) -> None:
    for relay in relays:
        loop.run(relay.close())


def test_no_history_breaks_an_invariant(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes by moving rows, which a reaper's head does not see: each reap walks over all."""
    monkeypatch.setattr("relay.outbox.reaping.CHEAP", float("inf"))
    options = [storage_options(outbox.relay_url, name, lease_timeout=LEASE, retry=RETRY) for name in RELAY_IDS]
    relays = [PostgresOutbox(one) for one in options]
    bounds = settings(
        max_examples=40,
        stateful_step_count=30,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # shrinking takes minutes of statements; 30 steps can be read
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    with outbox.database.connect() as connection, asyncio.Runner() as loop:
        connection.execute("SET synchronous_commit = off")
        new = functools.partial(Machine, connection, relays, loop)
        try:
            run_state_machine_as_test(new, settings=bounds)  # type: ignore[arg-type]  # any callable that makes one
        finally:
            _close(loop, relays)
