"""A broker with transactions, as Kafka's coordinator keeps them; used by ``tests.system.simulation.transactions``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay.core.event import EventId, OutboxEvent
from relay.core.proofs import LeasedRow
from tests.system.simulation.broker import Answer, Broker, Client


@dataclass(slots=True)
class Entry:
    """A proof in its topic."""

    rows: Mapping[LeasedRow, str]
    """With the destination of several that it speaks for; empty where it speaks for the event."""
    state: str = "open"


@dataclass(slots=True)
class Opened:
    """A transaction of one id."""

    number: int
    events: Sequence[OutboxEvent]
    proof: Entry


@dataclass(slots=True)
class Id:
    """A transactional id at the broker."""

    epoch: int = 0
    open: Opened | None = None
    committed: int = -1
    """The number of the last transaction that this epoch has committed."""


class TransactionalBroker(Broker):
    """Requests arrive whole; each method is one."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.ids: dict[str, Id] = {}
        self.proofs: list[Entry] = []
        self.busy = 0.0
        """How often a client is slow to begin."""

    def init(self, name: str) -> int:
        """Abort what is open, and end the epoch."""
        one = self.ids.setdefault(name, Id())
        self._end(one, "aborted")
        one.epoch, one.committed = one.epoch + 1, -1
        return one.epoch

    def produce(
        self, name: str, epoch: int, opened: Opened, client: Client, timeout: float
    ) -> dict[EventId, Answer] | None:
        """What is refused of it; nothing: all is there. None: the epoch has ended."""
        one = self.ids[name]
        if one.epoch != epoch:
            return None
        refused: dict[EventId, Answer] = {}
        for event in opened.events:
            answers = (rule(event, client) for rule in self.rules)
            answer = next((answer for answer in answers if answer is not None), Answer.STORE)
            if answer is not Answer.STORE:
                refused[event.event_id] = answer
        one.open = opened
        self.proofs.append(opened.proof)
        self.scheduler.after(timeout, lambda: self._time_out(one, opened))
        return refused

    def commit(self, name: str, epoch: int, number: int, relay: str) -> bool:
        """False: the epoch has ended. Asked for again it answers as the first time."""
        one = self.ids[name]
        if one.epoch != epoch:
            return False
        if one.open is not None and one.open.number == number:
            for event in one.open.events:
                self.ledger.acknowledged[event.event_id] += 1
                self.ledger.arrive(event.event_id, relay)
            self._end(one, "committed")
            one.committed = number
        return one.committed == number

    def abort(self, name: str, epoch: int) -> None:
        """Nothing of it will be seen."""
        if self.ids[name].epoch == epoch:
            self._end(self.ids[name], "aborted")

    def _time_out(self, one: Id, opened: Opened) -> None:
        if one.open is opened:
            self._end(one, "aborted")
            one.epoch += 1

    def _end(self, one: Id, state: str) -> None:
        if one.open is not None:
            one.open.proof.state, one.open = state, None

    def stable(self) -> int:
        """The end of the proofs for a reader of committed messages."""
        return next((at for at, one in enumerate(self.proofs) if one.state == "open"), len(self.proofs))
