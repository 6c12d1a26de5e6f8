"""The mutants: one line each, where a mistake would lose, repeat, reorder or hold up events."""

from __future__ import annotations

from typing import Final, NamedTuple


class Mutant(NamedTuple):
    """``old`` stands once in the file; ``new`` takes its place."""

    name: str
    path: str
    old: str
    new: str


ENGINE: Final = (
    Mutant(
        "a settle forgets what it could not write", "relay/engine/settle.py", "portion.batch.put_back(portion)", "pass"
    ),
    Mutant(
        "a verdict on an expired lease releases it",
        "relay/engine/settle.py",
        "expired = portion.batch.expired(portion.settlement.released, now)",
        "expired = ()",
    ),
    Mutant(
        "an expired batch is offered",
        "relay/engine/publish.py",
        "expired = [event_id for event_id in batch.expired(candidates, self._clock()) if event_id in batch.offered]",
        "expired: list[str] = []",
    ),
    Mutant(
        "abandoning leaves the client its messages",
        "relay/engine/publish.py",
        "                    await lane.forget(reason)\n                except",
        "                    pass\n                except",
    ),
    Mutant("abandoning releases nothing", "relay/engine/publish.py", "self._inflight.release(batch)", "pass"),
    Mutant(
        "the gate closes and releases nothing",
        "relay/engine/gate.py",
        "        await self._offers.abandon(reason)\n        # Not before",
        "        # Not before",
    ),
    Mutant(
        "the gate stays open",
        "relay/engine/gate.py",
        "        self._opened.clear()\n        self._health.broker_failed",
        "        self._health.broker_failed",
    ),
    Mutant(
        "a timeout is decided without a probe",
        "relay/engine/gate.py",
        "await self._probe(self._options.probe_timeout)\n        if refusal is None:\n            self._decider",
        "None\n        if refusal is None:\n            self._decider",
    ),
    Mutant("a lease is renewed only after it has run out", "relay/engine/portion.py", "seconds / 3", "seconds * 3"),
    Mutant(
        "a lease is taken to last twice as long",
        "relay/engine/portion.py",
        "sent_at + seconds,",
        "sent_at + 2 * seconds,",
    ),
    Mutant(
        "nothing is renewed", "relay/engine/lease.py", "elif everything or now >= batch.renew_at:", "elif everything:"
    ),
    Mutant(
        "a lost lease is kept",
        "relay/engine/lease.py",
        "            self._inflight.forfeit(batch, lost)",
        "            pass",
    ),
    Mutant(
        "an unrenewed lease counts as renewed",
        "relay/engine/lease.py",
        "renewed = [event_id for event_id in event_ids if event_id not in renewal.unchanged]",
        "renewed = list(event_ids)",
    ),
    Mutant(
        "reaping comes before settling after an outage",
        "relay/engine/lease.py",
        "if self._health.may_reap:",
        "if True:",
    ),
    Mutant("nothing is reaped", "relay/engine/lease.py", "if self._health.may_reap:", "if False:"),
    Mutant("settle and renewal overlap", "relay/engine/inflight.py", "if batch.writing or (", "if ("),
    Mutant(
        "an acknowledged event is released",
        "relay/engine/batch.py",
        "self.verdicts.delivered.extend([event.event_id for event in acknowledged])",
        "self.verdicts.released.extend([event.event_id for event in acknowledged])",
    ),
    Mutant(
        "followers are offered at once",
        "relay/engine/batch.py",
        "self.waiting.hold_back(events) if in_order else events",
        "events",
    ),
    Mutant(
        "a failed event lets those behind it pass",
        "relay/engine/batch.py",
        "        if self.waiting:\n            self.verdicts.released.extend(self.waiting.end(event))",
        "        if self.waiting:\n            self._follow([event])",
    ),
    Mutant(
        "events that wait are forgotten",
        "relay/engine/batch.py",
        "        self.verdicts.released.extend(self.waiting.end_all())\n",
        "        self.waiting.end_all()\n",
    ),
    Mutant(
        "an unreachable broker uses an attempt",
        "relay/core/verdict.py",
        "        case Unreachable() | ConnectionCut():\n            return RELEASE",
        "        case Unreachable() | ConnectionCut():\n            return Retry(1.0, 'X')",
    ),
    Mutant(
        "a transient failure counts no attempt", "relay/core/verdict.py", "failed = attempts + 1", "failed = attempts"
    ),
    Mutant(
        "a used up event is retried",
        "relay/core/backoff.py",
        "return attempts >= self.max_attempts",
        "return attempts > self.max_attempts",
    ),
    Mutant("backoff does not grow", "relay/core/backoff.py", "self.base_delay * 2.0**doublings", "self.base_delay"),
)

SQL: Final = (
    Mutant(
        "a delivery ignores the fence",
        "sql/outbox/settle.sql",
        "        AND locked_at = %(fence)s::timestamptz\n    FOR NO KEY UPDATE SKIP LOCKED --? !delete",
        "    FOR NO KEY UPDATE SKIP LOCKED --? !delete",
    ),
    Mutant(
        "a retry counts no attempt",
        "sql/outbox/settle.sql",
        "    status = 'PENDING',\n    attempts = LEAST(event.attempts, 2147483646) + 1,",
        "    status = 'PENDING',\n    attempts = event.attempts,",
    ),
    Mutant(
        "a dead event counts no attempt",
        "sql/outbox/settle.sql",
        "    status = 'DEAD',\n    attempts = LEAST(event.attempts, 2147483646) + 1,",
        "    status = 'DEAD',\n    attempts = event.attempts,",
    ),
    Mutant(
        "a claim does not look at available_at",
        "sql/outbox/claim.sql",
        "        status = 'PENDING'\n        AND available_at <= NOW()\n        AND event_id <> ALL",
        "        status = 'PENDING'\n        AND event_id <> ALL",
    ),
    Mutant(
        "a reaped event counts no attempt",
        "sql/outbox/lease.sql",
        "        attempts = LEAST(attempts, 2147483646) + 1,",
        "        attempts = attempts,",
    ),
    Mutant(
        "a renewal keeps the old fence after a clock step",
        "sql/outbox/lease.sql",
        "locked_at = GREATEST(NOW(), locked_at + INTERVAL '1 microsecond')",
        "locked_at = NOW()",
    ),
    Mutant(
        "live leases are reaped",
        "sql/outbox/lease.sql",
        "        AND locked_at < NOW() - MAKE_INTERVAL(secs => %(lease)s::float8)",
        "        AND locked_at < NOW()",
    ),
)
