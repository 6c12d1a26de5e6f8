"""Whether the numbers of the extension key-order go on behind those that wait: a copied table may begin again at 1.

Logical replication, and a dump of the rows alone, bring the rows along and not the sequence of ``insertion_order``.
Events that are inserted then have lower numbers than those that wait, and overtake them. Used at the start of a relay
with ORDERING=key and by ``relay-cli check``. Needs SELECT or USAGE on the sequence; without it, nothing is known.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from relay.postgres.sql import TableName, one_line

SAMPLE: Final = 1000
"""Waiting events that are looked at, of the oldest and of the newest ones."""


class OrderSequence(NamedTuple):
    """The row of ``outbox/backlog:order_sequence``."""

    last: int | None
    """The last number drawn, 0 before the first one; None where this user may not read it."""
    highest: int | None
    """The highest number of the events that wait, as far as they were looked at; None without one."""

    @property
    def is_behind(self) -> bool:
        """Whether events that are inserted now overtake others."""
        return self.last is not None and self.highest is not None and self.last < self.highest

    @property
    def problem(self) -> str:
        """What is wrong."""
        return (
            f"the sequence of insertion_order is at {self.last}, and an event that waits has {self.highest}: what is "
            "inserted now overtakes it in its key. The rows were copied without the sequence, by logical replication "
            "or a dump of the rows alone"
        )

    def remedy(self, table: TableName) -> str:
        """The statement for the owner."""
        return f"run as the owner, before more is inserted: {one_line('outbox/backlog:set_order_sequence', table)}"
