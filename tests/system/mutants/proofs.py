"""Mutants of exactly once: of what finds proofs, and of what a transaction holds."""

from __future__ import annotations

from typing import Final

from tests.system.mutants.mutant import Mutant

_FINDING = "tests/engine/test_expired_leases.py"
_SENDING = "tests/brokers/kafka/test_transactions.py"
_READING = "tests/brokers/kafka/test_proofs.py"
_PINNED = "tests/engine/test_pinned.py"
_HISTORIES = "tests/system/simulation/test_transactions.py"

PROOFS: Final = (
    Mutant(
        "a proven event is reaped without asking",
        "relay/engine/expired_leases.py",
        'rest = [row for row in asked if proven.get(row) != ""]',
        "rest = asked",
        (f"{_FINDING}::test_a_proven_row_that_the_database_refuses_is_not_reaped_and_holds_up_no_other",),
    ),
    Mutant(
        "proofs are read of a holder that was not ended",
        "relay/engine/expired_leases.py",
        "            await self._proofs.end_holder(holder)",
        "            pass",
        (f"{_FINDING}::test_the_holder_is_ended_before_proofs_are_read_and_once",),
    ),
    Mutant(
        "a lease in a transaction is renewed",
        "relay/engine/fences.py",
        "        if self._pinned:\n            event_ids",
        "        if False:\n            event_ids",
        (f"{_PINNED}::test_a_pinned_lease_is_not_renewed_and_others_of_its_claim_are",),
    ),
    Mutant(
        "an old claim goes under a new epoch",
        "relay/engine/fences.py",
        "if lease.sent_at >= since and lease",
        "if lease",
        (
            f"{_PINNED}::test_a_transaction_begins_with_leases_that_last_and_of_its_epoch_alone",
            f"{_HISTORIES}::test_a_few_histories_keep_every_promise",
        ),
    ),
    Mutant(
        "an event without a proof is settled",
        "relay/engine/expired_leases.py",
        'await self._settle([row for row in asked if proven.get(row) == ""])',
        "await self._settle(asked)",
        (f"{_FINDING}::test_what_is_proven_is_delivered_and_the_rest_is_reaped",),
    ),
    Mutant(
        "a transaction holds no proof",
        "relay/brokers/kafka/transaction.py",
        "in self._proofs(frozenset(self.refused)):",
        "in ():",
        (f"{_SENDING}::test_a_transaction_is_acknowledged_as_a_whole_and_leaves_a_proof",),
    ),
    Mutant(
        "the last stable offset is taken for the end of the proofs",
        "relay/brokers/kafka/proofs.py",
        "isolation_level=IsolationLevel.READ_UNCOMMITTED",
        "isolation_level=IsolationLevel.READ_COMMITTED",
        (f"{_READING}::test_a_proof_behind_an_open_transaction_of_a_stranger_is_waited_for",),
    ),
    Mutant(
        "proofs that were not committed are believed",
        "relay/brokers/kafka/proofs.py",
        '"isolation.level": "read_committed"',
        '"isolation.level": "read_uncommitted"',
        (f"{_READING}::test_a_proof_that_was_not_committed_proves_nothing",),
    ),
    Mutant(
        "a commit whose answer is lost is taken for an abort",
        "relay/brokers/kafka/transaction.py",
        "                self.error = failure_of(error.args[0])",
        "                return End.ABORTED, False",
        ("tests/system/chaos/test_commit_answers.py::test_a_commit_whose_answer_is_lost_is_asked_for_again",),
    ),
)
