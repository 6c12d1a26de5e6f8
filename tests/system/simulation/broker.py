"""The scripted broker, and a relay's client of it.

A message travels to the broker, which answers as the rules in force say; the answer travels back. A client that waits
too long for an answer reports a timeout; one that loses its connection reports everything in flight as unreachable.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import (
    ACKNOWLEDGED,
    Acknowledged,
    Away,
    ConnectionCut,
    Outcome,
    OutcomeSink,
    Permanent,
    Resolution,
    TimedOut,
    Transient,
    Unreachable,
    Withheld,
)
from relay.core.ports import SingleDestination
from tests.system.simulation.database import name_of
from tests.system.simulation.ledger import REFUSED_FOR_GOOD, Ledger
from tests.system.simulation.scheduler import Process, Scheduler


class Answer(Enum):
    """What the broker makes of one message."""

    STORE = "stored and acknowledged"
    SILENT = "stored, the acknowledgement is lost"
    DROP = "neither stored nor answered"
    REFUSE = "refused, may work later"
    BURY = "refused for good"
    CUT = "the connection is cut"
    AWAY = "its destination does not answer"
    WITHHOLD = "not stored, behind one of its run that was not stored"


Rule = Callable[[OutboxEvent, "Client"], Answer | None]
"""The answer to a message, or None to leave it to the next rule."""


class Run(NamedTuple):
    """The events of one key in one ``publish`` of a client that keeps runs."""

    ended: set[str]
    """Keys of which the broker has not stored an event: it stores none behind that."""
    failed: set[str]
    """Keys of which an event has failed: those behind it are withheld."""


@dataclass(slots=True, eq=False)
class Pending:
    """A message without an answer."""

    event: OutboxEvent
    sink: OutcomeSink
    session: int
    run: Run | None = None

    def end_run(self) -> None:
        """The broker does not store it."""
        if self.run is not None and self.event.partition_key is not None:
            self.run.ended.add(self.event.partition_key)

    @property
    def behind_failure(self) -> bool:
        """Whether the broker must not store it."""
        return self.run is not None and self.event.partition_key in self.run.ended


Answered = tuple[Pending, Outcome]


class Broker:
    """The server."""

    probes_behind_answers = False
    """Whether a probe waits for the answers before it, as on one connection that answers in turn."""
    stores_behind_failures = False
    """Whether it goes on with a run of which it has not stored an event."""
    refuses_while_read_only = False
    """Whether clients take a read-only broker's answer for a failure of the event."""

    def __init__(self, scheduler: Scheduler, ledger: Ledger, rng: random.Random) -> None:
        self.scheduler = scheduler
        self.ledger = ledger
        self.rng = rng
        self.rules: list[Rule] = []
        self.away: dict[str, int] = {}
        """By relay (the empty name means all relays): how many faults keep it away."""
        self.silent: dict[str, int] = {}
        self.read_only = 0
        self.blocks = False
        """It answers probes and takes nothing."""
        self.blocked = ""
        """Why, where it says so."""
        self.late: list[float] = []
        """Seconds by which acknowledgements are late; the longest counts."""
        self.shuffled = 0
        self.twice = 0
        self.clients: list[Client] = []

    def is_away(self, relay: str) -> bool:
        """Whether the broker refuses this relay's connections."""
        return self.away.get("", 0) > 0 or self.away.get(name_of(relay), 0) > 0

    def is_silent(self, relay: str) -> bool:
        """Whether nothing gets through between it and this relay."""
        return self.silent.get("", 0) > 0 or self.silent.get(name_of(relay), 0) > 0

    def latency(self) -> float:
        """Of one way."""
        return 0.0002 + self.rng.random() * 0.002

    def forget_sessions(self, relay: str) -> None:
        """A restart: connections are cut, and what is not answered is forgotten."""
        for client in self.clients:
            if relay in ("", name_of(client.name)):
                client.lose("connection reset by peer")

    def receive(self, client: Client, batch: list[Pending]) -> None:
        """Messages of one session arrive, in order."""
        answered: list[Answered] = []
        for place, pending in enumerate(batch):
            if self._is_lost(pending, client):
                pending.end_run()
                continue
            answer = self._answer(pending, client)
            if answer is Answer.CUT:
                self._cut(client, batch[place:])
                break
            result = self._outcome(pending, answer, client)
            if result is not None and pending.session == client.session:
                answered.append((pending, result))
        if answered:
            self._send_answers(client, answered)

    def _is_lost(self, pending: Pending, client: Client) -> bool:
        """Whether the message does not arrive."""
        if pending.session != client.session:
            return self.rng.random() < 0.5  # what was on its way when the client gave up the session
        return self.blocks or self.is_silent(client.name) or self.is_away(client.name)

    def _answer(self, pending: Pending, client: Client) -> Answer:
        if pending.behind_failure and not self.stores_behind_failures:
            return Answer.WITHHOLD
        answers = (rule(pending.event, client) for rule in self.rules)
        answer = next((answer for answer in answers if answer is not None), Answer.STORE)
        if answer not in (Answer.STORE, Answer.SILENT):
            pending.end_run()
        return answer

    def _outcome(self, pending: Pending, answer: Answer, client: Client) -> Outcome | None:
        one = pending.event.event_id
        if answer in (Answer.STORE, Answer.SILENT):
            self.ledger.arrive(one, client.name)
        if answer is not Answer.STORE:
            self.ledger.say(f"broker to {client.name}: {one} {answer.value}")
        if answer is Answer.STORE:
            self.ledger.acknowledged[one] += 1
            return ACKNOWLEDGED
        if answer is Answer.WITHHOLD:
            return Withheld("behind one that was not stored")
        if answer is Answer.AWAY:
            return Away("connection refused")
        if answer is Answer.REFUSE:
            self.ledger.blame[one] += 1
            return Transient("LEADER", "changed")
        if answer is Answer.BURY:
            self.ledger.blame[one] += 1
            self.ledger.final.add(one)
            return Permanent(REFUSED_FOR_GOOD, "message too large")
        return None

    def _cut(self, client: Client, unread: list[Pending]) -> None:
        pending = unread[0]
        for one in unread:
            one.end_run()
        self.ledger.say(f"broker cuts the connection of {client.name} on {pending.event.event_id}")
        session = pending.session
        self.scheduler.after(self.latency(), lambda: client.lose("connection reset by peer", session))

    def _send_answers(self, client: Client, answered: list[Answered]) -> None:
        groups = [answered]
        if self.shuffled:
            self.rng.shuffle(answered)
            middle = self.rng.randrange(len(answered) + 1)
            groups = [group for group in (answered[:middle], answered[middle:]) if group]
        for group in groups:
            for _ in range(2 if self.twice else 1):
                delay = self.latency() + max(self.late, default=0.0) * (0.5 + 0.5 * self.rng.random())
                client.expect(self.scheduler.now + delay)
                self.scheduler.after(delay, lambda group=group: self._deliver(client, group))  # type: ignore[misc]

    def _deliver(self, client: Client, group: list[Answered]) -> None:
        if self.is_silent(client.name) or client.process.dead:
            return
        client.process.call_soon(client.hear, group)


class Client(SingleDestination):
    """One relay's ``Publisher``."""

    name = "simulated"

    def __init__(
        self, broker: Broker, process: Process, *, timeout: float, capacity: int, keeps_runs: bool = False
    ) -> None:
        self.keeps_runs = keeps_runs
        self.name = process.name
        self.process = process
        self.session = 0
        self.pending: dict[int, Pending] = {}
        """By identity: an event whose lease has expired may be offered again before its first copy is given up."""
        self.most_pending = 0
        self._broker = broker
        self._timeout = timeout
        self._capacity = capacity
        self._answers_until = 0.0
        self._arrives_at = 0.0
        self._changed = asyncio.Event()
        broker.clients.append(self)

    @property
    def blocked(self) -> str:
        """As the broker says."""
        return self._broker.blocked

    async def open(self) -> None:
        """Nothing to make."""

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event; waits while the client is full."""
        left = list(events)
        run = Run(set(), set()) if self.keeps_runs else None
        while left:
            while len(self.pending) >= self._capacity:
                self._changed.clear()
                await self._changed.wait()
            room = self._capacity - len(self.pending)
            part, left = left[:room], left[room:]
            if run is not None:
                part = self._without_behind(part, run, sink)
            if part:
                self._offer(part, sink, run)

    def _without_behind(self, events: list[OutboxEvent], run: Run, sink: OutcomeSink) -> list[OutboxEvent]:
        ended = run.ended | run.failed
        behind = [event for event in events if event.partition_key in ended]
        if behind:
            self.process.call_soon(sink, [(event, Withheld("behind a failed one")) for event in behind])
        return [event for event in events if event.partition_key not in ended]

    def _offer(self, events: list[OutboxEvent], sink: OutcomeSink, run: Run | None) -> None:
        broker = self._broker
        batch = [Pending(event, sink, self.session, run) for event in events]
        if broker.read_only and broker.refuses_while_read_only:
            self.process.call_soon(self._resolve, [(one, Transient("READONLY", "a replica")) for one in batch])
            return
        if broker.is_away(self.name) or broker.read_only:
            reason = "connection refused" if broker.is_away(self.name) else "READONLY"
            self.process.call_soon(self._resolve, [(one, Unreachable(reason)) for one in batch])
            return
        for one in batch:
            self.pending[id(one)] = one
        self.process.call_later(self._timeout, self._expire, batch)
        # One connection: what is sent later does not arrive earlier.
        self._arrives_at = max(self._arrives_at, self.process.time() + broker.latency())
        broker.scheduler.at(self._arrives_at, lambda: broker.receive(self, batch))

    def expect(self, when: float) -> None:
        """An answer is due at that time."""
        self._answers_until = max(self._answers_until, when)

    def hear(self, group: list[Answered]) -> None:
        """Answers of the broker. One to a message that the client has given up says nothing about a later one."""
        answered = [(pending, outcome) for pending, outcome in group if self._holds(pending)]
        for pending, _ in answered:
            del self.pending[id(pending)]
        self._resolve(answered)

    def _holds(self, pending: Pending) -> bool:
        return self.pending.get(id(pending)) is pending

    def lose(self, reason: str, session: int | None = None) -> None:
        """The connection is cut."""
        if self.process.dead or (session is not None and session != self.session):
            return
        self.session += 1
        if len(self.pending) == 1:
            self._broker.ledger.blame.update(one.event.event_id for one in self.pending.values())
        self.process.call_soon(self._give_up, ConnectionCut(reason))

    def _give_up(self, outcome: Outcome) -> None:
        lost: list[Answered] = [(pending, outcome) for pending in self.pending.values()]
        self.pending.clear()
        self._resolve(lost)

    def _expire(self, batch: list[Pending]) -> None:
        overdue = [one for one in batch if self._holds(one)]
        if not overdue:
            return
        for one in overdue:
            del self.pending[id(one)]
            self._broker.ledger.blame[one.event.event_id] += 1
        self._broker.ledger.say(f"{self.name}: {len(overdue)} messages without an answer in {self._timeout:g} s")
        self._resolve([(one, TimedOut("NO_ACK", "no answer in time")) for one in overdue])

    def _resolve(self, answered: list[Answered]) -> None:
        by_sink: dict[OutcomeSink, list[Resolution]] = {}
        for pending, result in answered:
            outcome = self._outcome(pending, result)
            by_sink.setdefault(pending.sink, []).append((pending.event, outcome))
        for sink, resolutions in by_sink.items():
            sink(resolutions)
        self._changed.set()

    @staticmethod
    def _outcome(pending: Pending, outcome: Outcome) -> Outcome:
        """Of a run the first event fails, and those behind it are withheld."""
        key = pending.event.partition_key
        if pending.run is None or key is None or isinstance(outcome, Acknowledged | Withheld):
            return outcome
        if key in pending.run.failed:
            return Withheld("behind a failed one")
        pending.run.failed.add(key)
        return outcome

    async def probe(self, timeout: float) -> None:
        """A sign of life."""
        broker = self._broker
        if broker.is_away(self.name) or (broker.read_only and not broker.refuses_while_read_only):
            await asyncio.sleep(broker.latency())
            raise BrokerUnreachable("connection refused" if broker.is_away(self.name) else "READONLY")
        wait = 2 * broker.latency()
        if broker.probes_behind_answers:
            wait = max(wait, self._answers_until - self.process.time())
        if wait > timeout or broker.is_silent(self.name):
            await asyncio.sleep(timeout)
            raise BrokerUnreachable(f"no answer within {timeout:g} s")
        await asyncio.sleep(wait)
        if broker.is_away(self.name) or broker.is_silent(self.name):
            raise BrokerUnreachable("connection lost")

    async def abandon(self, reason: str) -> None:
        """Forget what has no answer."""
        self.session += 1
        self._give_up(Unreachable(reason))
        await asyncio.sleep(0)

    def twin(self) -> Client:
        """A client with connections of its own."""
        return Client(
            self._broker,
            self.process,
            timeout=self._timeout,
            capacity=self._capacity,
            keeps_runs=self.keeps_runs,
        )

    async def close(self) -> None:
        """Forget what is left."""
        await self.abandon("the publisher was closed")
