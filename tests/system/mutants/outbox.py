"""Mutants of the outbox in PostgreSQL: its adapter, its connections and its statements."""

from __future__ import annotations

from typing import Final

from tests.system.mutants.mutant import Mutant

_CONFORMANCE = "tests/outbox/test_conformance.py"
_ORDER = "tests/outbox/test_conformance_order.py"
_FLOORS = "tests/outbox/test_floors.py"
_HEAD = "tests/outbox/test_head.py"
_BEHIND = "tests/outbox/test_look_behind.py"
_LOCKS = "tests/outbox/test_conformance_locks.py"
_TROUBLE = "tests/outbox/test_trouble.py"
_CONNECT = "tests/postgres/test_connect.py"
_FENCED = f"{_CONFORMANCE}::test_only_the_holder_of_the_lease_settles"

OUTBOX: Final = (
    Mutant(
        "of several pauses the end of the last is not noticed",
        "relay/outbox/left_out.py",
        "if (patterns, in_part, apart) == (self.patterns, self.in_part, self.apart):",
        "if (patterns[:1], in_part) == (self.patterns[:1], self.in_part):",
        ("tests/system/simulation/test_histories.py::test_a_few_histories_keep_every_promise",),
    ),
    Mutant(
        "settle without commit",
        "relay/postgres/connect.py",
        "            autocommit=True,\n"
        "            prepare_threshold=None,\n            context=adapters,\n        )\n\n\ndef connect(",
        "            autocommit=False,\n"
        "            prepare_threshold=None,\n            context=adapters,\n        )\n\n\ndef connect(",
        (f"{_CONFORMANCE}::test_an_acknowledged_event_is_delivered_and_keeps_its_attempts",),
    ),
    Mutant(
        "a renewal is rolled back",
        "relay/outbox/renewal.py",
        "async with connection.transaction():",
        "async with connection.transaction(force_rollback=True):",
        (f"{_CONFORMANCE}::test_a_renewal_moves_the_fence_of_what_is_held",),
    ),
    Mutant(
        "a renewal whose answer was lost keeps the old fence",
        "relay/outbox/renewal.py",
        "return Renewal(renewed if held else fence, held, unchanged)",
        "return Renewal(fence, held, unchanged)",
        (f"{_TROUBLE}::test_a_renewal_whose_answer_is_lost_is_read_back",),
    ),
    Mutant(
        "an overdue statement is cut off and not cancelled",
        "relay/postgres/connect.py",
        "                    answers = await _cancel(connection)",
        "                    pass",
        (
            f"{_CONNECT}::test_a_statement_that_waits_for_a_lock_is_cancelled_at_its_deadline",
            _CONNECT,
        ),
    ),
    Mutant(
        "verdicts of several kinds are counted as one",
        "relay/outbox/settling.py",
        "            counts[place][kind] = await _written(cursor, released)",
        "            counts[place]['delivered'] = await _written(cursor, released)",
        (f"{_CONFORMANCE}::test_verdicts_of_every_kind_and_of_several_claims_go_in_one_call",),
    ),
    Mutant(
        "a row that is locked counts as lost",
        "relay/outbox/settling.py",
        "            return settled._replace(locked=held)",
        "            return settled",
        (f"{_LOCKS}::test_a_settle_skips_a_locked_row_and_reports_it",),
    ),
)

SQL: Final = (
    Mutant(
        "a delivery ignores the fence",
        "sql/outbox/settle.sql",
        "        AND locked_at = %(fence)s::timestamptz\n    FOR NO KEY UPDATE SKIP LOCKED --? !delete",
        "    FOR NO KEY UPDATE SKIP LOCKED --? !delete",
        (_FENCED,),
    ),
    Mutant(
        "a retry counts no attempt",
        "sql/outbox/settle.sql",
        "    status = 'PENDING',\n    attempts = LEAST(GREATEST(event.attempts, 0), 2147483646) + 1,",
        "    status = 'PENDING',\n    attempts = event.attempts,",
        (f"{_CONFORMANCE}::test_a_retried_event_waits_for_its_delay_with_its_error",),
    ),
    Mutant(
        "a dead event counts no attempt",
        "sql/outbox/settle.sql",
        "    status = 'DEAD',\n    attempts = LEAST(GREATEST(event.attempts, 0), 2147483646) + 1,",
        "    status = 'DEAD',\n    attempts = event.attempts,",
        (f"{_CONFORMANCE}::test_a_buried_event_is_dead_and_an_attempt_more",),
    ),
    Mutant(
        "a retried event is due at once",
        "sql/outbox/settle.sql",
        "    available_at = NOW() + MAKE_INTERVAL(secs => LEAST(failed.delay, 3155760000)),\n",
        "",
        (f"{_CONFORMANCE}::test_a_retried_event_waits_for_its_delay_with_its_error",),
    ),
    Mutant(
        "a claim does not look at available_at",
        "sql/outbox/claim.sql",
        "--? tied\n                AND available_at <= NOW()\n",
        "--? tied\n",
        (f"{_CONFORMANCE}::test_scheduled_rows_wait_for_their_time",),
    ),
    Mutant(
        "a claim in order passes a row that is in flight",
        "sql/outbox/claim_ordered.sql",
        " AS alone,\n                status = 'PENDING'\n",
        " AS alone,\n                TRUE\n",
        (f"{_ORDER}::test_what_is_in_flight_holds_what_is_behind_it_when_the_first_row_is_released",),
    ),
    Mutant(
        "a claim in order goes on behind a row that it may not take",
        "sql/outbox/claim_ordered.sql",
        "WHERE behind.unbroken AND",
        "WHERE",
        (
            f"{_ORDER}::test_a_scheduled_event_holds_its_key",
            _ORDER,
        ),
    ),
    Mutant(
        "a claim in order passes what was replayed below a floor",
        "sql/outbox/claim_ordered.sql",
        "        AND COALESCE(insertion_order <= ( --? oldest floors",
        "        AND COALESCE(TRUE OR insertion_order <= ( --? oldest floors",
        (f"{_FLOORS}::test_a_replayed_event_goes_first_though_its_key_has_a_floor",),
    ),
    Mutant(
        "a claim takes keys whose floors it did not ask for",
        "sql/outbox/claim_ordered.sql",
        "        %(floors)s::jsonb ? hash::text AND --? oldest floors\n",
        "",
        (f"{_FLOORS}::test_a_key_that_comes_after_the_floors_were_asked_for_is_the_next_claims",),
    ),
    Mutant(
        "a floor comes above a transaction in progress",
        "relay/outbox/floors.py",
        "self.unseen_from is not None and snapshot.in_progress_from >= self.unseen_from",
        "self.unseen_from is not None",
        (f"{_FLOORS}::test_an_event_that_commits_late_goes_before_those_inserted_after_its_commit",),
    ),
    Mutant(
        "a reaped event counts no attempt",
        "sql/outbox/lease.sql",
        "        attempts = LEAST(GREATEST(attempts, 0), 2147483646) + 1,",
        "        attempts = attempts,",
        (f"{_CONFORMANCE}::test_an_expired_lease_is_a_failed_attempt_with_backoff",),
    ),
    Mutant(
        "a renewal keeps the old fence after a clock step",
        "sql/outbox/lease.sql",
        "locked_at = GREATEST(NOW(), locked_at + INTERVAL '1 microsecond')",
        "locked_at = NOW()",
        (f"{_CONFORMANCE}::test_a_renewal_has_a_later_fence_even_when_the_clock_was_set_back",),
    ),
    Mutant(
        "looking behind the head stops",
        "relay/outbox/waiting_rows.py",
        "            if head.has_room and one.due_at <= self._clock():",
        "            if False:",
        (f"{_HEAD}::test_looks_come_to_a_row_behind_the_head",),
    ),
    Mutant(
        "a look moves the head past a locked row",
        "relay/outbox/waiting_rows.py",
        "            head.passed(first, look.free or look.end or min(end, present), look.at)",
        "            head.passed(first, look.end or min(end, present), look.at)",
        (f"{_HEAD}::test_a_look_does_not_move_the_head_past_a_locked_row",),
    ),
    Mutant(
        "a claim in order moves the head past a locked row",
        "relay/outbox/ordered.py",
        '                first = None if first_due is None else (first_due, float("-inf"))',
        "                first = None if first_due is None else (at, at)",
        (f"{_BEHIND}::test_a_claim_in_order_does_not_move_the_head_past_a_locked_row",),
    ),
    Mutant(
        "a claim in order lets a stretch go of which it has seen a part",
        "relay/outbox/head.py",
        "            if not rows and not whole:",
        "            if False:",
        (f"{_BEHIND}::test_the_oldest_rows_behind_the_head_wait_behind_rows_of_their_keys_that_come_later",),
    ),
    Mutant(
        "the head comes up to the present",
        "relay/outbox/head.py",
        '        reached = min(last, (at - self.margin.seconds, float("-inf")))',
        "        reached = last",
        (f"{_HEAD}::test_a_claim_moves_the_head_to_its_last_row_and_not_into_the_margin",),
    ),
    Mutant(
        "the head comes near to the present whatever transactions take",
        "relay/outbox/margin.py",
        "        return min(MARGIN, max(SHORTEST_MARGIN, few, min(2 * max(self._ages), most)))",
        "        return min(MARGIN, max(SHORTEST_MARGIN, few))",
        (f"{_HEAD}::test_the_head_stays_twice_the_age_of_the_oldest_row_behind_within_five_hundred_rows",),
    ),
    Mutant(
        "claims of a tie never walk over it again",
        "relay/outbox/head.py",
        "        return span if tie is None or self._sent_at >= tie.walk_at else span._replace(tid=tie.tid)",
        "        return span if tie is None else span._replace(tid=tie.tid)",
        (f"{_HEAD}::test_claims_of_a_tie_read_on_in_the_table_and_walk_over_it_now_and_then",),
    ),
    Mutant(
        "a tie that is not near any more counts as claimed",
        "relay/outbox/head.py",
        '            self._ties[key] = _Tie(span.tid, walk_at=float("-inf"))',
        "            self.place = after(self.place)",
        ("tests/outbox/test_ties.py::test_the_rest_of_a_tie_that_lies_far_away_in_the_table_is_found",),
    ),
    Mutant(
        "leases behind the reaper's head are left there",
        "relay/outbox/reaping.py",
        "        if self._clock() < self._walk_at:",
        "        if True:",
        ("tests/outbox/test_reaping.py::test_a_lease_behind_the_head_is_reclaimed_by_the_next_walk_over_all",),
    ),
    Mutant(
        "live leases are reaped",
        "sql/outbox/lease.sql",
        "NOW() - MAKE_INTERVAL(secs => %(lease)s::float8) --? !ahead !timeless !asked",
        "NOW() --? !ahead !timeless !asked",
        (f"{_CONFORMANCE}::test_an_expired_lease_is_a_failed_attempt_with_backoff",),
    ),
    Mutant(
        "prune chooses rows of every status",
        "sql/outbox/prune.sql",
        "    WHERE status = 'DEAD' AND updated_at < %(before)s::timestamptz AND updated_at",
        "    WHERE updated_at < %(before)s::timestamptz AND updated_at",
        ("tests/outbox/admin/test_prune.py::test_only_delivered_and_dead_rows_of_that_age_go",),
    ),
)
