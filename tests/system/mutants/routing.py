"""Mutants of routing, and of destinations that are away."""

from __future__ import annotations

from typing import Final

from tests.system.mutants.mutant import Mutant

_SEVERAL = "tests/engine/destination/test_several.py"
_AWAY = "tests/engine/test_away.py"
_FAN_OUT = "tests/engine/destination/test_fanout.py"
_ENGINE = "tests/engine/test_fan_out.py"
_BLOCKED = "tests/engine/test_blocked.py"
_PARTS = "tests/engine/test_parts.py"
_LAWS = "tests/system/simulation/test_laws.py"
_CONFORMANCE = "tests/brokers/test_conformance.py::test_a_destination_in_trouble_holds_up_no_other"
_LOOP = "tests/app/test_loop.py"
_APART = "tests/outbox/test_apart.py"

ROUTING: Final = (
    Mutant(
        "a destination that does not answer may take all places",
        "relay/engine/room.py",
        "        self._reserve = options.max_in_flight // _RESERVE",
        "        self._reserve = 0",
        (_LAWS,),
    ),
    Mutant(
        "a late destination is known by the types alone that have waited for it",
        "relay/engine/destination/late.py",
        "        return self._flows if",
        "        return () if",
        (f"{_BLOCKED}::test_a_burst_for_both_leaves_places_to_the_others",),
    ),
    Mutant(
        "a destination is late no longer than its oldest event waits",
        "relay/engine/destination/late.py",
        "if waits or self._prompt_at < self._late_at else ()",
        "if waits else ()",
        (f"{_BLOCKED}::test_one_whose_oldest_events_run_out_of_time_is_late_with_the_newer_ones_too",),
    ),
    Mutant(
        "a connection that one of several destinations cuts counts as no answer",
        "relay/engine/destination/member.py",
        "if isinstance(outcome, TimedOut) else outcome",
        "if isinstance(outcome, TimedOut) else self._no_answer()",
        (_LAWS,),
    ),
    Mutant(
        "few events without an answer keep their type out of the last places",
        "relay/engine/room.py",
        "slow_flows(now, after, late, few, few_bytes)",
        "slow_flows(now, after, late)",
        (_CONFORMANCE,),
    ),
    Mutant(
        "a destination that takes nothing keeps what it was offered",
        "relay/engine/destination/member.py",
        "            self._forget_for = reason",
        "            pass",
        (f"{_BLOCKED}::test_a_fan_out_flows_to_the_others_and_is_released_with_what_they_have",),
    ),
    Mutant(
        "a destination that takes nothing is tried with every event",
        "relay/engine/destination/member.py",
        "            tried = int(now - self._tried_at >= self.times.retry_interval)",
        "            tried = len(events)",
        (f"{_BLOCKED}::test_a_fan_out_flows_to_the_others_and_is_released_with_what_they_have",),
    ),
    Mutant(
        "a destination that takes nothing is not known by it when an event comes",
        "relay/engine/destination/member.py",
        "        if not self.blocked:",
        "        if False:",
        ("tests/app/test_endpoints.py::test_events_that_come_one_by_one_find_a_host_that_takes_nothing",),
    ),
    Mutant(
        "in order per key a destination that does not answer takes all places",
        "relay/engine/claim.py",
        "if self._options.in_order or isinstance(one, Apart)]:",
        "if isinstance(one, Apart)]:",
        (f"{_BLOCKED}::test_the_others_flow_while_one_takes_nothing",),
    ),
    Mutant(
        "a little room for all keeps the others out",
        "relay/engine/room.py",
        "        if is_for_all and not self._is_crowded(places - self._reserve, now):",
        "        if is_for_all:",
        ("tests/engine/test_few_places.py::test_answers_that_trickle_in_leave_places_to_the_others",),
    ),
    Mutant(
        "one that answers before it is late makes the others wait for its backlog",
        "relay/engine/room.py",
        "(LATE, SOON) if looks_past else (LATE,)",
        "(LATE,)",
        ("tests/engine/test_few_places.py::test_one_whose_answers_come_in_half_a_second_keeps_its_backlog_to_itself",),
    ),
    Mutant(
        "claims look past what waits all the time",
        "relay/engine/room.py",
        "_LOOK_PAST_SHARE: Final = 0.05",
        "_LOOK_PAST_SHARE: Final = 1.0",
        ("tests/engine/test_few_places.py::test_one_whose_answers_come_in_half_a_second_keeps_its_backlog_to_itself",),
    ),
    Mutant(
        "one that is soon late is known by the types alone that have waited for it",
        "relay/engine/room.py",
        "one.late_flows(after)}",
        "one.late_flows(LATE)}",
        (_LAWS,),
    ),
    Mutant(
        "what is slow once stays slow",
        "relay/engine/destination/watched.py",
        "        elif slow in self._why and now - self._slow_at >= _SLOW_FOR:",
        "        elif False:",
        (f"{_BLOCKED}::test_one_whose_answers_take_long_is_slow_until_they_do_not",),
    ),
    Mutant(
        "each caller looks a name up itself",
        "relay/app/loop.py",
        "        if (lookup := self._lookups.get(question)) is None:",
        "        if (lookup := None) is None:",
        (f"{_LOOP}::test_a_name_that_hangs_is_asked_once_and_holds_up_no_other",),
    ),
    Mutant(
        "the next address waits until the one before has failed",
        "relay/core/racing.py",
        "timeout=_NEXT_AFTER if waiting else None",
        "timeout=None",
        (f"{_LOOP}::test_a_connection_is_made_to_the_address_that_answers",),
    ),
    Mutant(
        "an acknowledgement ends a hold in force",
        "relay/engine/away.py",
        "if one.on_trial or one.in_part or now >= one.until:",
        "if True:",
        (f"{_AWAY}::test_a_type_with_several_servers_flows_trial_by_trial_and_is_not_claimed_without_a_pause",),
    ),
    Mutant(
        "a trial is every claim until it is answered",
        "relay/engine/away.py",
        "one.until, one.on_trial = now + one.hold, True",
        "one.on_trial = True",
        (f"{_AWAY}::test_a_trial_is_one_claim_until_it_is_answered",),
    ),
    Mutant(
        "what is no longer left out is not looked for",
        "relay/outbox/head.py",
        "            if thing not in things and place < self.place:",
        "            if False:",
        ("tests/outbox/test_head.py::test_what_is_no_longer_left_out_is_claimed_from_where_it_was_left_out",),
    ),
    Mutant(
        "a timeout of one destination is decided without a probe",
        "relay/engine/destination/destination.py",
        "                await self.check(self._time.flowing)\n                await self._parts",
        "                await self._parts",
        (f"{_SEVERAL}::test_a_timeout_or_cut_is_decided_by_a_probe_of_that_destination",),
    ),
    Mutant(
        "an event without an answer has failed an attempt though its part does not answer",
        "relay/engine/destination/parts.py",
        "        return self.take(event, Away(reason)) if reason else None",
        "        return None",
        (f"{_PARTS}::test_a_queue_that_hangs_is_slow_then_away_then_back_and_uses_no_attempt",),
    ),
    Mutant(
        "a state keeps the name of a server that was replaced",
        "relay/engine/destination/parts.py",
        "if name != OTHERS and self._name_of(part.event) != name:",
        "if False:",
        (f"{_PARTS}::test_a_state_does_not_keep_the_name_of_a_server_that_was_replaced",),
    ),
    Mutant(
        "each part has its own state, however many there are",
        "relay/engine/destination/parts.py",
        "        if name not in self._parts and len(self._parts) >= MOST_PARTS:",
        "        if False:",
        (f"{_PARTS}::test_so_many_have_their_own_state_and_the_rest_share_one",),
    ),
    Mutant(
        "one part that takes nothing blocks the whole destination",
        "relay/engine/destination/member.py",
        "            if (away := self._parts.take(event, outcome)) is not None:",
        "            if (away := None) is not None:",
        (f"{_PARTS}::test_one_that_takes_nothing_blocks_no_other_queue",),
    ),
    Mutant(
        "one destination that is away is unreachable for all",
        "relay/engine/destination/member.py",
        "return Away(reason, self.title) if self._any_answers() else Unreachable(reason)",
        "return Unreachable(reason)",
        (f"{_SEVERAL}::test_one_that_is_down_is_away_and_the_other_goes_on",),
    ),
    Mutant(
        "runs are kept where headers send a type to several destinations",
        "relay/engine/destination/routed.py",
        "return self._inner.keeps_runs and not self._router.by_header",
        "return self._inner.keeps_runs",
        ("tests/engine/destination/test_routed.py::test_runs_are_kept_only_where_a_type_has_one_destination",),
    ),
    Mutant(
        "a destination that has acknowledged an event gets it again",
        "relay/engine/destination/assign.py",
        "left = [one for one in sent if one.via not in acknowledged]",
        "left = list(sent)",
        (f"{_FAN_OUT}::test_what_one_has_acknowledged_it_does_not_get_again",),
    ),
    Mutant(
        "a refusal by one destination is the end for all",
        "relay/engine/destination/fanout.py",
        "if len(refused) == len(outcomes):",
        "if refused:",
        (f"{_FAN_OUT}::test_nothing_terminal_comes_from_one_while_another_may_still_take_it",),
    ),
    Mutant(
        "names are forgotten when a settle is sent again",
        "relay/core/storage.py",
        "        self.acknowledged |= earlier.acknowledged\n",
        "",
        (f"{_ENGINE}::test_names_outlive_a_settle_that_fails",),
    ),
    Mutant(
        "an endpoint that does not answer gets what an earlier one takes",
        "relay/routing/rules.py",
        "earlier=tuple(patterns[:place])",
        "earlier=()",
        (_LAWS,),
    ),
    Mutant(
        "an event without the header waits for a destination that does not answer",
        "sql/outbox/claim.sql",
        "            ) IS NOT TRUE --? apart",
        "            ) IS FALSE --? apart",
        (f"{_APART}::test_sql_and_routing_send_an_event_to_the_same_destination",),
    ),
    Mutant(
        "a type of which one destination is away is held as a whole",
        "relay/engine/decide.py",
        "in_part=event.acknowledged_by is not None",
        "in_part=False",
        (f"{_ENGINE}::test_while_one_is_away_the_other_gets_every_event_and_nothing_is_claimed_without_a_pause",),
    ),
    Mutant(
        "a delivered event keeps its names",
        "sql/outbox/settle.sql",
        "    -- acknowledged_by = NULL, --? !delete fan_out\n",
        "",
        ("tests/outbox/test_fan_out.py::test_a_delivered_event_forgets_them_so_that_a_replay_goes_to_all",),
    ),
    Mutant(
        "the rate of a destination counts nothing that goes",
        "relay/engine/destination/pace.py",
        "        self._tokens -= taken",
        "        pass",
        (_LAWS,),
    ),
    Mutant(
        "the connections of suspects have a rate of their own",
        "relay/engine/destination/several.py",
        "        return type(self)(twins, self._router, self._drops, self._times, self._paces)",
        "        return type(self)(twins, self._router, self._drops, self._times)",
        (_LAWS,),
    ),
)
