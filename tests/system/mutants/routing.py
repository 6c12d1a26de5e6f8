"""Mutants of routing, and of destinations that are away."""

from __future__ import annotations

from typing import Final

from tests.system.mutants.mutant import Mutant

_SEVERAL = "tests/routing/test_several.py"
_AWAY = "tests/engine/test_away.py"

ROUTING: Final = (
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
        "a head holds for every other set of patterns",
        "relay/outbox/paused.py",
        "for one, heads in self._remembered.items() if one <= within)",
        "for one, heads in self._remembered.items())",
        ("tests/outbox/test_paused.py::test_the_head_is_known_again_after_a_trial",),
    ),
    Mutant(
        "a timeout of one destination is decided without a probe",
        "relay/routing/member.py",
        "            await self.check(self.options.probe_timeout)\n        except BrokerUnreachable:\n"
        "            self._resolve_undecided(",
        "            pass\n        except BrokerUnreachable:\n            self._resolve_undecided(",
        (f"{_SEVERAL}::test_a_timeout_or_cut_is_decided_by_a_probe_of_that_destination",),
    ),
    Mutant(
        "one destination that is away is unreachable for all",
        "relay/routing/member.py",
        "return Away(reason, self.title) if self._any_answers() else Unreachable(reason)",
        "return Unreachable(reason)",
        (f"{_SEVERAL}::test_one_that_is_down_is_away_and_the_other_goes_on",),
    ),
    Mutant(
        "runs are kept where headers send a type to several destinations",
        "relay/routing/publisher.py",
        "return self._inner.keeps_runs and not self._routes.by_header",
        "return self._inner.keeps_runs",
        ("tests/routing/test_publisher.py::test_runs_are_kept_only_where_a_type_has_one_destination",),
    ),
)
