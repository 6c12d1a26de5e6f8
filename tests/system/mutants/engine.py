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
_STOPPING = "tests/system/acceptance/test_stopping_and_outages.py"

ENGINE: Final = (
    # Leases.
    Mutant(
        "an expired batch is offered",
        "relay/engine/publish.py",
        "            if expired:\n",
        "            if expired and events is not None:\n",
        (f"{_CLAIM}::test_a_relay_that_slept_offers_nothing_whose_lease_ran_out", _PUBLISH, _CLAIM),
    ),
    Mutant(
        "a follower whose lease has expired is offered",
        "relay/engine/publish.py",
        "            if expired:\n",
        "            if expired and events is None:\n",
        (f"{_PUBLISH}::test_a_follower_whose_lease_ran_out_is_not_offered", _PUBLISH, _CLAIM),
    ),
    Mutant(
        "an expired lease is released",
        "relay/engine/settle.py",
        "expired = portion.batch.expired(portion.settlement.released, now)",
        "expired = list[EventId]()",
        (f"{_SETTLE}::test_an_expired_lease_is_left_to_the_reaper_and_not_released", _SETTLE, _LEASE),
    ),
    Mutant(
        "what has expired while the database was away stays with the client",
        "relay/engine/lease.py",
        "if not answered and batch.expired_offered(now):",
        "if False:",
        (f"{_LEASE}::test_a_lease_that_ran_out_while_the_database_was_away_is_given_up_not_settled", _LEASE, _PUBLISH),
    ),
    Mutant(
        "an event whose renewal is refused is held beyond its lease",
        "relay/engine/lease.py",
        "            self._inflight.forfeit(batch, unrenewable)",
        "            pass",
        (
            f"{_LEASE}::test_an_event_whose_renewal_is_refused_is_let_go_when_its_lease_ends",
            _LEASE,
        ),
    ),
    Mutant(
        "a lease is renewed only after it has run out",
        "relay/engine/fences.py",
        "seconds / 3",
        "seconds * 3",
        (f"{_BATCH}::test_a_lease_counts_from_before_its_statement_and_is_renewed_after_a_third", _BATCH, _LEASE),
    ),
    Mutant(
        "a lease is taken to last twice as long",
        "relay/engine/fences.py",
        "sent_at + seconds,",
        "sent_at + 2 * seconds,",
        (f"{_BATCH}::test_a_lease_counts_from_before_its_statement_and_is_renewed_after_a_third", _BATCH, _LEASE),
    ),
    Mutant(
        "nothing is renewed",
        "relay/engine/lease.py",
        "elif everything or now >= batch.renew_at:",
        "elif everything:",
        (
            f"{_LEASE}::test_a_lease_is_renewed_after_a_third_of_it_and_not_before",
            _LEASE,
        ),
    ),
    Mutant(
        "a lost lease is kept",
        "relay/engine/lease.py",
        "            self._inflight.forfeit(batch, lost)",
        "            pass",
        (
            f"{_LEASE}::test_a_lease_that_was_lost_is_noticed_by_the_renewal",
            _LEASE,
        ),
    ),
    Mutant(
        "a row that is locked at its renewal counts as lost",
        "relay/engine/lease.py",
        "known = renewal.held | renewal.unchanged",
        "known = renewal.held",
        (
            "tests/engine/test_locked_rows.py::test_a_long_lock_costs_few_statements_and_ends_within_a_second",
            "tests/engine/test_locked_rows.py",
        ),
    ),
    Mutant(
        "a settle ignores the fences of leases renewed in parts",
        "relay/engine/fences.py",
        "fence=lease.fence)",
        "fence=self._own.fence)",
        (f"{_BATCH}::test_leases_renewed_in_parts_have_fences_of_their_own", _BATCH, _LEASE),
    ),
    Mutant(
        "settle and renewal overlap",
        "relay/engine/inflight.py",
        "if batch.writing or (",
        "if (",
        (
            "tests/engine/test_inflight.py::test_a_batch_that_is_written_to_is_left_out_and_comes_back",
            "tests/engine/test_inflight.py",
            _LEASE,
        ),
    ),
    Mutant(
        "reaping comes before settling after an outage",
        "relay/engine/lease.py",
        "if self._health.may_reap:",
        "if True:",
        (
            f"{_LEASE}::test_after_an_outage_outcomes_are_settled_then_leases_renewed_then_expired_ones_reaped",
            _LEASE,
            _HEALTH,
        ),
    ),
    Mutant(
        "nothing is reaped",
        "relay/engine/lease.py",
        "if self._health.may_reap:",
        "if False:",
        (
            f"{_LEASE}::test_after_an_outage_outcomes_are_settled_then_leases_renewed_then_expired_ones_reaped",
            _LEASE,
        ),
    ),
    # Offering and abandoning.
    Mutant(
        "abandoning leaves the client its messages",
        "relay/engine/publish.py",
        "            await lane.forget(reason)\n        except",
        "            pass\n        except",
        (f"{_PUBLISH}::test_a_batch_whose_lease_ran_out_before_its_turn_is_not_offered", _PUBLISH, _GATE),
    ),
    Mutant(
        "abandoning releases nothing",
        "relay/engine/publish.py",
        "                self._inflight.release(batch)",
        "                pass",
        (f"{_PUBLISH}::test_an_offer_that_waits_for_room_is_called_off_when_the_broker_is_given_up", _PUBLISH, _GATE),
    ),
    Mutant(
        "an offer under way is not called off",
        "relay/engine/publish.py",
        "            lane.call_off()",
        "            pass",
        (
            f"{_PUBLISH}::test_a_batch_whose_lease_ran_out_before_its_turn_is_not_offered",
            _PUBLISH,
        ),
    ),
    Mutant(
        "the gate closes and releases nothing",
        "relay/engine/gate.py",
        "        await self._offers.abandon(reason)\n        # Not before",
        "        # Not before",
        (
            f"{_GATE}::test_one_unreachable_event_closes_the_gate_and_an_answered_probe_opens_it",
            _GATE,
        ),
    ),
    Mutant(
        "the gate stays open",
        "relay/engine/destination/destination.py",
        "            self._opened.clear()\n        reason = ",
        "        reason = ",
        (
            f"{_GATE}::test_a_health_check_finds_a_broker_that_hangs",
            _GATE,
        ),
    ),
    Mutant(
        "a timeout is decided without a probe",
        "relay/engine/destination/destination.py",
        "                await self.check(self._time.flowing)\n                await self._parts",
        "                await self._parts",
        (
            f"{_GATE}::test_a_timeout_is_the_brokers_fault_where_it_does_not_answer",
            _GATE,
        ),
    ),
    Mutant(
        "what is not on its way at a stop is sent on",
        "relay/engine/relay.py",
        '        self._offers.take_back("the relay is stopping")\n',
        "",
        (f"{_STOPPING}::test_sigterm_begins_no_webhook_and_waits_for_those_under_way",),
    ),
    Mutant(
        "what was claimed while the gate closed is offered",
        "relay/engine/claim.py",
        "            if self._gate.is_open:\n                # Known",
        "            if True:\n                # Known",
        (
            f"{_CLAIM}::test_a_claim_that_comes_back_after_the_gate_closed_is_released_unoffered",
            _CLAIM,
        ),
    ),
    Mutant(
        "the stop does not wait for a claim under way",
        "relay/engine/relay.py",
        "(self._claimer.claiming or self.inflight.unanswered)",
        "self.inflight.unanswered",
        (
            f"{_RELAY}::test_a_claim_under_way_at_the_stop_is_not_lost",
            _RELAY,
        ),
    ),
    Mutant(
        "a group that was cut off is blamed as a whole",
        "relay/engine/publish.py",
        "case ConnectionCut(reason) if events == 1:",
        "case ConnectionCut(reason):",
        (
            f"{_SUSPECTS}::test_more_groups_without_an_answer_than_lanes_are_waited_for",
            _SUSPECTS,
        ),
    ),
    Mutant(
        "a suspect shares its connection with one that lost its lease unanswered",
        "relay/engine/publish.py",
        "        if lane.unanswered:",
        "        if False:",
        (f"{_SUSPECTS}::test_a_cut_on_an_event_without_a_lease_is_not_blamed_on_the_next_suspect",),
    ),
    # Outcomes and verdicts.
    Mutant(
        "an acknowledged event is released",
        "relay/engine/batch.py",
        "self.verdicts.delivered += (event_ids",
        "self.verdicts.released += (event_ids",
        (f"{_BATCH}::test_an_acknowledgement_decides_and_comes_once", _BATCH, _DECIDE),
    ),
    Mutant(
        "of several failed events all but the last are ignored",
        "relay/engine/batch.py",
        "                others.append(resolution)",
        "                others = [resolution]",
        (f"{_DECIDE}::test_failures_are_retried_buried_said_measured_and_recorded", _DECIDE, _SETTLE),
    ),
    Mutant(
        "a second outcome of an event counts",
        "relay/engine/batch.py",
        "if pop(event.event_id, None) is None:",
        "if pop(event.event_id, event) is None:",
        (f"{_DECIDE}::test_a_second_outcome_and_one_of_an_event_that_is_gone_are_ignored", _DECIDE, _BATCH),
    ),
    Mutant(
        "an unreachable broker uses an attempt",
        "relay/core/verdict.py",
        "            return RELEASE",
        "            return Retry(1.0, 'X')",
        (f"{_DECIDE}::test_an_unreachable_broker_releases_wakes_the_gate_and_is_no_attempt", _DECIDE, _GATE),
    ),
    Mutant(
        "a transient failure counts no attempt",
        "relay/core/verdict.py",
        "failed = attempts + 1",
        "failed = attempts",
        (f"{_BACKOFF}::test_each_transient_failure_is_an_attempt_and_waits_longer", _BACKOFF, _DECIDE, _CLAIM),
    ),
    Mutant(
        "a used up event is retried",
        "relay/core/backoff.py",
        "return attempts >= self.max_attempts",
        "return attempts > self.max_attempts",
        (f"{_BACKOFF}::test_the_last_attempt_is_the_end", _BACKOFF, _DECIDE),
    ),
    Mutant(
        "backoff does not grow",
        "relay/core/backoff.py",
        "self.base_delay * 2.0**doublings",
        "self.base_delay",
        (
            f"{_BACKOFF}::test_delays_double_up_to_the_longest_one",
            _BACKOFF,
        ),
    ),
    Mutant(
        "backoff has no upper bound",
        "relay/core/backoff.py",
        "min(max(self.base_delay * 2.0**doublings, least), self.max_delay)",
        "max(self.base_delay * 2.0**doublings, least)",
        (
            f"{_BACKOFF}::test_delays_double_up_to_the_longest_one",
            _BACKOFF,
        ),
    ),
    # Settling.
    Mutant(
        "a settle forgets what it could not write",
        "relay/engine/settle.py",
        "portion.batch.put_back(portion)",
        "pass",
        (
            f"{_SETTLE}::test_verdicts_outlive_a_failed_statement",
            _SETTLE,
        ),
    ),
    Mutant(
        "a refused row is forgotten",
        "relay/engine/settle.py",
        "portion.batch.set_aside(refused, again_at)",
        "pass",
        (
            f"{_SETTLE}::test_a_refused_row_is_tried_again_after_pauses_and_written_once_it_may",
            _SETTLE,
        ),
    ),
    Mutant(
        "a locked row is forgotten",
        "relay/engine/settle.py",
        "        portion.batch.set_aside(later, self._clock() + pause)\n",
        "",
        (
            "tests/engine/test_locked_rows.py::test_the_others_are_settled_at_once",
            "tests/engine/test_locked_rows.py",
        ),
    ),
    Mutant(
        "what a round of settling did not reach is forgotten",
        "relay/engine/settle.py",
        "                portion.batch.set_aside(portion, self._clock())",
        "                pass",
        (
            f"{_SETTLE}::test_many_refused_rows_neither_starve_good_ones_nor_slow_down_later_settles",
            _SETTLE,
        ),
    ),
    # Order per key.
    Mutant(
        "followers are offered at once",
        "relay/engine/batch.py",
        "self.waiting.hold_back(events)",
        "events",
        (f"{_BATCH}::test_any_other_verdict_releases_what_waits_behind", _BATCH, _CLAIM),
    ),
    Mutant(
        "a failed event lets those behind it pass",
        "relay/engine/batch.py",
        "            self.verdicts.released.extend(self.waiting.end(event))\n\n    def release_suspects",
        "            self._follow([event])\n\n    def release_suspects",
        (
            f"{_BATCH}::test_any_other_verdict_releases_what_waits_behind",
            _BATCH,
        ),
    ),
    Mutant(
        "events that wait are forgotten",
        "relay/engine/batch.py",
        "        self.verdicts.released += self.waiting.end_all()",
        "        self.verdicts.released += self.waiting.end_all()[:0]",
        (
            f"{_BATCH}::test_releasing_takes_all_that_has_no_outcome_and_nothing_else",
            _BATCH,
        ),
    ),
    Mutant(
        "what waits behind a lost event is offered",
        "relay/engine/batch.py",
        "        self.verdicts.released.extend(self.waiting.drop(gone))",
        "        pass",
        (
            f"{_BATCH}::test_a_lost_event_is_gone_from_every_state",
            _BATCH,
        ),
    ),
)
