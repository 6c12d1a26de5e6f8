"""Mutants of exactly once: of what finds proofs, and of what a transaction holds."""

from __future__ import annotations

from typing import Final

from tests.system.mutants.mutant import Mutant

_FINDING = "tests/engine/test_finding.py"
_PINNED = "tests/engine/test_pinned.py"

PROOFS: Final = (
    Mutant(
        "a proven event is reaped without asking",
        "relay/engine/finding.py",
        "return [row for row in asked if row not in proven]",
        "return asked",
        (f"{_FINDING}::test_a_proven_row_that_the_database_refuses_is_not_reaped_and_holds_up_no_other",),
    ),
    Mutant(
        "proofs are read of a holder that was not ended",
        "relay/engine/finding.py",
        "            await self._proofs.end_holder(holder)",
        "            pass",
        (f"{_FINDING}::test_the_holder_is_ended_before_proofs_are_read_and_once",),
    ),
    Mutant(
        "a lease in a transaction is renewed",
        "relay/engine/fences.py",
        "        if self.pinned:\n            event_ids",
        "        if False:\n            event_ids",
        (f"{_PINNED}::test_a_pinned_lease_is_not_renewed_and_others_of_its_claim_are",),
    ),
    Mutant(
        "an old claim goes under a new epoch",
        "relay/engine/fences.py",
        "if lease.sent_at >= since and lease",
        "if lease",
        (f"{_PINNED}::test_a_transaction_begins_with_leases_that_last_and_of_its_epoch_alone",),
    ),
)
