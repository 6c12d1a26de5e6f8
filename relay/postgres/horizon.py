"""What holds the xmin horizon, and for how long: the transaction for whose sake vacuum removes no dead row.

Every role sees which transactions a session, a prepared transaction or a slot still needs, and who that is. Only with
pg_read_all_stats a role sees since when a session of another role does. So a process that stays remembers when each
transaction number was the next one (``HorizonWatch``): that tells how old the horizon is, whatever the role may see. A
process that looks once has the age of the holder's transaction, or, where that is hidden, the transactions since.

Used by the relay (``relay.outbox.slowreads``) and the operator's checks; reads only, raises what the statement raises.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple, Self

from relay.core.durations import span

HELD_LONG: Final = 1800.0
"""Seconds after which a held horizon is worth a warning; what every short transaction holds is none."""
MANY: Final = 100_000
"""Transactions after which it is, where since when it is held is hidden."""
_HARMLESS: Final = 1000  # transactions whose dead rows cost nothing to speak of

_MOST_READINGS: Final = 1440  # a day, one a minute; of more every second one is forgotten


class Holder(NamedTuple):
    """What holds the horizon; the columns of ``horizon:held``."""

    kind: str
    """``pid``, ``prepared transaction`` or ``replication slot``."""
    name: str
    application: str
    role: str
    seconds: float | None
    """How old its transaction is: it holds the horizon for as long at most. None where that is not to be seen."""
    transactions: int
    """How many have begun since."""

    def __str__(self) -> str:
        who = ", ".join(part for part in (self.application, f"role {self.role}" if self.role else "") if part)
        return f"{self.kind} {self.name} ({who})" if who else f"{self.kind} {self.name}"

    @property
    def remedy(self) -> str:
        """How to end it."""
        name = "'" + self.name.replace("'", "''") + "'"
        statements = {
            "pid": f"SELECT pg_terminate_backend({self.name})",
            "prepared transaction": f"ROLLBACK PREPARED {name}, or COMMIT PREPARED",
            "replication slot": f"SELECT pg_drop_replication_slot({name})",
        }
        return f"end it if it is not needed: {statements[self.kind]}"

    def said(self, seconds: float | None) -> str:
        """Who holds the horizon, for how long, and what that means; where ``seconds`` are unknown the transactions."""
        held = (
            f"is held for {self.transactions:,} transactions"
            if seconds is None
            else f"has been held for {span(seconds)}"
        )
        return f"the xmin horizon {held} by {self}: vacuum removes no dead row from then on"


class XminHorizon(NamedTuple):
    """One reading."""

    next_transaction: int
    """The number of the transaction that begins next."""
    holder: Holder | None
    """What reaches back furthest."""

    @classmethod
    def of(cls, row: tuple[object, ...]) -> Self:
        """From the row of ``horizon:held``."""
        number, kind, *rest = row
        return cls(int(str(number)), None if kind is None else Holder._make((kind, *rest)))

    @property
    def held_long(self) -> Holder | None:
        """The holder, where it has held the horizon for long, by this reading alone."""
        holder = self.holder
        if holder is None or holder.transactions < _HARMLESS:
            return None
        long = holder.transactions >= MANY if holder.seconds is None else holder.seconds >= HELD_LONG
        return holder if long else None


class HorizonWatch:
    """How long the horizon has been where it is, by the readings of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._numbers: list[int] = []
        self._times: list[float] = []

    def held(self, horizon: XminHorizon) -> float:
        """Seconds for which the transaction at the horizon has not been the next one, at least; 0.0 without a holder.

        What was held before the first reading has the age of its holder, where that is seen.
        """
        now = self._clock()
        self._remember(now, horizon.next_transaction)
        if horizon.holder is None:
            return 0.0
        later = bisect_right(self._numbers, horizon.next_transaction - horizon.holder.transactions)
        if later == 0:
            return max(now - self._times[0], horizon.holder.seconds or 0.0)
        return now - self._times[later] if later < len(self._times) else 0.0

    def _remember(self, now: float, number: int) -> None:
        if self._numbers and number < self._numbers[-1]:  # another server, or one restored to an earlier time
            self._numbers, self._times = [], []
        if not self._numbers or number > self._numbers[-1]:
            self._numbers.append(number)
            self._times.append(now)
        if len(self._numbers) > _MOST_READINGS:
            self._numbers, self._times = self._numbers[::2], self._times[::2]
