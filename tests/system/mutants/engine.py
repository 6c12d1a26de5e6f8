"""Mutants of the engine and of what it decides by (``relay/engine``, ``relay/core``)."""

from __future__ import annotations

from typing import Final

from tests.system.mutants.mutant import Mutant

_BATCH = "tests/engine/test_batch.py"
_CLAIM = "tests/engine/test_claim.py"
_DECIDE = "tests/engine/test_decide.py"
_GATE = "tests/engine/test_gate.py"
_HEALTH = "tests/engine/test_health.py"
_LEASE = "tests/engine/test_lease.py"
_PUBLISH = "tests/engine/test_publish.py"
_RELAY = "tests/engine/test_relay.py"
_SETTLE = "tests/engine/test_settle.py"
_SUSPECTS = "tests/engine/test_suspects.py"
_BACKOFF = "tests/core/test_backoff.py"

ENGINE: Final = (
    # Leases.
    Mutant(
        "an expired batch is offered",
        "relay/engine/publish.py",
        "            if expired:\n",
        "            if expired and events is not None:\n",
        (_PUBLISH, _CLAIM),
    ),
    Mutant(
        "a follower whose lease has expired is offered",
        "relay/engine/publish.py",
        "            if expired:\n",
        "            if expired and events is None:\n",
        (_PUBLISH, _CLAIM),
    ),
    Mutant(
        "an expired lease is released",
        "relay/engine/settle.py",
        "expired = portion.batch.expired(portion.settlement.released, now)",
        "expired = list[EventId]()",
        (_SETTLE, _LEASE),
    ),
    Mutant(
        "what has expired while the database was away stays with the client",
        "relay/engine/lease.py",
        "if not answered and batch.expired(batch.offered, now):",
        "if False:",
        (_LEASE, _PUBLISH),
    ),
    Mutant(
        "an event whose renewal is refused is held beyond its lease",
        "relay/engine/lease.py",
        "            self._inflight.forfeit(batch, unrenewable)",
        "            pass",
        (_LEASE,),
    ),
    Mutant(
        "a lease is renewed only after it has run out",
        "relay/engine/portion.py",
        "seconds / 3",
        "seconds * 3",
        (_BATCH, _LEASE),
    ),
    Mutant(
        "a lease is taken to last twice as long",
        "relay/engine/portion.py",
        "sent_at + seconds,",
        "sent_at + 2 * seconds,",
        (_BATCH, _LEASE),
    ),
    Mutant(
        "nothing is renewed",
        "relay/engine/lease.py",
        "elif everything or now >= batch.renew_at:",
        "elif everything:",
        (_LEASE,),
    ),
    Mutant(
        "a lost lease is kept",
        "relay/engine/lease.py",
        "            self._inflight.forfeit(batch, lost)",
        "            pass",
        (_LEASE,),
    ),
    Mutant(
        "a row that is locked at its renewal counts as lost",
        "relay/engine/lease.py",
        "known = renewal.held | renewal.unchanged",
        "known = renewal.held",
        ("tests/engine/test_locked_rows.py",),
    ),
    Mutant(
        "a settle ignores the fences of leases renewed in parts",
        "relay/engine/batch.py",
        "part.fence = lease.fence",
        "part.fence = self.lease.fence",
        (_BATCH, _LEASE),
    ),
    Mutant(
        "settle and renewal overlap",
        "relay/engine/inflight.py",
        "if batch.writing or (",
        "if (",
        ("tests/engine/test_inflight.py", _LEASE),
    ),
    Mutant(
        "reaping comes before settling after an outage",
        "relay/engine/lease.py",
        "if self._health.may_reap:",
        "if True:",
        (_LEASE, _HEALTH),
    ),
    Mutant("nothing is reaped", "relay/engine/lease.py", "if self._health.may_reap:", "if False:", (_LEASE,)),
    # Offering and abandoning.
    Mutant(
        "abandoning leaves the client its messages",
        "relay/engine/publish.py",
        "            await lane.forget(reason)\n        except",
        "            pass\n        except",
        (_PUBLISH, _GATE),
    ),
    Mutant(
        "abandoning releases nothing",
        "relay/engine/publish.py",
        "                self._inflight.release(batch)",
        "                pass",
        (_PUBLISH, _GATE),
    ),
    Mutant(
        "an offer under way is not called off",
        "relay/engine/publish.py",
        "            lane.call_off()",
        "            pass",
        (_PUBLISH,),
    ),
    Mutant(
        "the gate closes and releases nothing",
        "relay/engine/gate.py",
        "        await self._offers.abandon(reason)\n        # Not before",
        "        # Not before",
        (_GATE,),
    ),
    Mutant(
        "the gate stays open",
        "relay/engine/gate.py",
        "        self._opened.clear()\n        self._health.broker_failed",
        "        self._health.broker_failed",
        (_GATE,),
    ),
    Mutant(
        "a timeout is decided without a probe",
        "relay/engine/gate.py",
        "await self._probe(self._options.probe_timeout)\n        if refusal is None:\n            self._decider",
        "None\n        if refusal is None:\n            self._decider",
        (_GATE,),
    ),
    Mutant(
        "what was claimed while the gate closed is offered",
        "relay/engine/claim.py",
        "            if self._gate.is_open:\n                # Known",
        "            if True:\n                # Known",
        (_CLAIM,),
    ),
    Mutant(
        "the stop does not wait for a claim under way",
        "relay/engine/relay.py",
        "(self._claimer.claiming or self.inflight.unanswered)",
        "self.inflight.unanswered",
        (_RELAY,),
    ),
    Mutant(
        "a group that was cut off is blamed as a whole",
        "relay/engine/publish.py",
        "case ConnectionCut(reason) if events == 1:",
        "case ConnectionCut(reason):",
        (_SUSPECTS,),
    ),
    # Outcomes and verdicts.
    Mutant(
        "an acknowledged event is released",
        "relay/engine/batch.py",
        "self.verdicts.delivered.extend([event.event_id for event in acknowledged])",
        "self.verdicts.released.extend([event.event_id for event in acknowledged])",
        (_BATCH, _DECIDE),
    ),
    Mutant(
        "of several failed events all but the last are ignored",
        "relay/engine/batch.py",
        "                others.append(resolution)",
        "                others = [resolution]",
        (_DECIDE, _SETTLE),
    ),
    Mutant(
        "a second outcome of an event counts",
        "relay/engine/batch.py",
        "if pop(event.event_id, None) is None:",
        "if pop(event.event_id, event) is None:",
        (_DECIDE, _BATCH),
    ),
    Mutant(
        "an unreachable broker uses an attempt",
        "relay/core/verdict.py",
        "            return RELEASE",
        "            return Retry(1.0, 'X')",
        (_DECIDE, _GATE),
    ),
    Mutant(
        "a transient failure counts no attempt",
        "relay/core/verdict.py",
        "failed = attempts + 1",
        "failed = attempts",
        (_BACKOFF, _DECIDE, _CLAIM),
    ),
    Mutant(
        "a used up event is retried",
        "relay/core/backoff.py",
        "return attempts >= self.max_attempts",
        "return attempts > self.max_attempts",
        (_BACKOFF, _DECIDE),
    ),
    Mutant(
        "backoff does not grow",
        "relay/core/backoff.py",
        "self.base_delay * 2.0**doublings",
        "self.base_delay",
        (_BACKOFF,),
    ),
    Mutant(
        "backoff has no upper bound",
        "relay/core/backoff.py",
        "min(self.base_delay * 2.0**doublings, self.max_delay)",
        "self.base_delay * 2.0**doublings",
        (_BACKOFF,),
    ),
    # Settling.
    Mutant(
        "a settle forgets what it could not write",
        "relay/engine/settle.py",
        "portion.batch.put_back(portion)",
        "pass",
        (_SETTLE,),
    ),
    Mutant(
        "a refused row is forgotten",
        "relay/engine/settle.py",
        "portion.batch.set_aside(portion, self._clock() + growing_pause(portion.refusals, _FIRST_PAUSE))",
        "pass",
        (_SETTLE,),
    ),
    Mutant(
        "a locked row is forgotten",
        "relay/engine/settle.py",
        "        portion.batch.set_aside(later, self._clock() + pause)\n",
        "",
        ("tests/engine/test_locked_rows.py",),
    ),
    Mutant(
        "what a round of settling did not reach is forgotten",
        "relay/engine/settle.py",
        "                portion.batch.set_aside(portion, self._clock())",
        "                pass",
        (_SETTLE,),
    ),
    # Order per key.
    Mutant(
        "followers are offered at once",
        "relay/engine/batch.py",
        "self.waiting.hold_back(events) if in_order else events",
        "events",
        (_BATCH, _CLAIM),
    ),
    Mutant(
        "a failed event lets those behind it pass",
        "relay/engine/batch.py",
        "        if self.waiting:\n            self.verdicts.released.extend(self.waiting.end(event))",
        "        if self.waiting:\n            self._follow([event])",
        (_BATCH,),
    ),
    Mutant(
        "events that wait are forgotten",
        "relay/engine/batch.py",
        "*self.undecided_ids(), *self.waiting.end_all()]",
        "*self.undecided_ids(), *self.waiting.end_all()[:0]]",
        (_BATCH,),
    ),
    Mutant(
        "what waits behind a lost event is offered",
        "relay/engine/batch.py",
        "        self.verdicts.released.extend(self.waiting.drop(gone))",
        "        pass",
        (_BATCH,),
    ),
)
