"""Mutants of the inbox (``openoutbox.inbox``, ``relay/inbox`` and their SQL)."""

from __future__ import annotations

from typing import Final

from tests.system.mutants.mutant import Mutant

_ONCE = "tests/client/test_inbox.py"
_MARK = "client/openoutbox/sql/inbox/mark.sql"

INBOX: Final = (
    Mutant(
        "each delivery is the first",
        "client/openoutbox/repeats.py",
        "    first = bool(await channel.fetch(mark.statement, mark.values))",
        "    first = not await channel.fetch(mark.statement, mark.values) or True",
        (f"{_ONCE}::test_an_effect_happens_once",),
    ),
    Mutant(
        "an error in the block leaves the mark",
        "client/openoutbox/inbox.py",
        "    with channel.savepoint():\n        with naming_table",
        "    if channel.savepoint():\n        with naming_table",
        (f"{_ONCE}::test_an_error_takes_back_mark_and_effect_and_the_transaction_goes_on",),
    ),
    Mutant(
        "a connection in autocommit mode is taken",
        "client/openoutbox/through_django.py",
        "        return self._connection.get_autocommit() and not self._connection.in_atomic_block",
        "        return False",
        (f"{_ONCE}::test_autocommit_without_a_transaction_is_refused",),
    ),
    Mutant(
        "consumers share their marks",
        _MARK,
        "VALUES (%(consumer)s::text, %(event_id)s::text)",
        "VALUES (COALESCE('all', %(consumer)s::text), %(event_id)s::text)",
        (f"{_ONCE}::test_consumers_and_events_are_apart",),
    ),
    Mutant(
        "prune deletes marks of every age",
        "sql/inbox/admin.sql",
        "    WHERE received_at < %(before)s::timestamptz AND received_at >= %(after)s::timestamptz",
        "    WHERE received_at >= %(after)s::timestamptz AND %(before)s::timestamptz IS NOT NULL",
        ("tests/inbox/test_prune.py::test_only_marks_of_that_age_go_in_batches",),
    ),
    Mutant(
        "a retention shorter than a repeat is taken",
        "relay/inbox/prune.py",
        "        if self.older_than <= 0 or self.older_than < self.redelivered_within:",
        "        if self.older_than <= 0:",
        ("tests/inbox/test_prune.py::test_a_retention_shorter_than_a_repeat_is_refused",),
    ),
    Mutant(
        "an event is committed without its change",
        "client/openoutbox/announce.py",
        "        if not self.autocommit:\n            raise",
        "        if self.autocommit is None:\n            raise",
        ("tests/client/test_autocommit.py::test_an_event_that_would_be_committed_alone_is_refused",),
    ),
    Mutant(
        "the events of a key are not in the order of the commits",
        "client/openoutbox/sql/outbox/insert.sql",
        "PG_ADVISORY_XACT_LOCK",
        "PG_ADVISORY_XACT_LOCK_SHARED",
        ("tests/client/test_in_order.py::test_a_second_writer_of_the_key_waits_for_the_commit_and_other_keys_do_not",),
    ),
)
