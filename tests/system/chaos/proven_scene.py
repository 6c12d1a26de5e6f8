"""The scene of exactly once: relays that are killed, frozen and cut off at each request to Kafka, and its reader."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self

from confluent_kafka import Consumer, TopicPartition

from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox
from tests.support.messages import kafka_headers
from tests.support.waiting import wait_until
from tests.system.chaos.brokers import Broker
from tests.system.chaos.kafka_requests import KafkaRequests, Kind, Moment, has_port

LEASE: Final = 3.0
_FROZEN: Final = 2 * LEASE
_MET_WITHIN: Final = 20.0  # seconds; a moment that does not come by then is counted as missed
_HOLDERS = """
SELECT DISTINCT locked_by FROM openoutbox_events
WHERE status = 'DELIVERING' AND locked_at > clock_timestamp() - make_interval(secs => %s)
"""
_LEFT = "SELECT count(*) FROM openoutbox_events WHERE status <> 'DELIVERED'"


class How(Enum):
    """What happens to a relay."""

    KILL = "kill -9"
    FREEZE = "frozen beyond its lease"
    CUT = "connection cut"


class Fault(NamedTuple):
    """What happens to the relay that sends this request, or is about to get this answer."""

    how: How
    moment: Moment


ALWAYS: Final = (Kind.API_VERSIONS, Kind.METADATA, Kind.INIT_PRODUCER_ID, Kind.PRODUCE)
_IN_TRANSACTIONS: Final = (Kind.FIND_COORDINATOR, Kind.ADD_PARTITIONS_TO_TXN, Kind.END_TXN)
_OF_FINDERS: Final = (Kind.FETCH, Kind.LIST_OFFSETS)


def moments_of(kinds: Iterable[Kind]) -> list[Moment]:
    """Each of these requests, and its answer."""
    return [Moment(kind, answered) for kind in kinds for answered in (False, True)]


MOMENTS: Final = moments_of((*ALWAYS, *_IN_TRANSACTIONS, *_OF_FINDERS))
"""All that matter to exactly once."""


class Reader(threading.Thread):
    """Reads committed messages as they come, and measures how long it waits for one that is due."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(name="reader", daemon=True)
        url = broker.env()["PUBLISHER_URL"]
        self._consumer = Consumer({"bootstrap.servers": url, "group.id": "live", "log_level": 0})
        self._consumer.assign([TopicPartition(broker.destination, 0, 0)])
        self._ending = threading.Event()
        self._expected = 0
        self._since = 0.0
        self.seen: Counter[str] = Counter()
        self.waits: dict[str, float] = {}
        """The longest wait of each label, in seconds."""
        self.label = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._ending.set()
        self.join()
        self._consumer.close()

    def expect(self, count: int) -> None:
        """So many more are due from now on."""
        if len(self.seen) >= self._expected:
            self._since = time.monotonic()
        self._expected += count

    def run(self) -> None:
        while not self._ending.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            now = time.monotonic()
            self.waits[self.label] = max(self.waits.get(self.label, 0.0), now - self._since)
            self._since = now
            self.seen[kafka_headers(message)["X-Event-ID"]] += 1


class Relays:
    """Some relays, each of which is started again when it was killed, and thawed when it was frozen long enough."""

    def __init__(self, outbox: Outbox, env: dict[str, str], count: int, stack: ExitStack) -> None:
        pace = {"LEASE_TIMEOUT": f"{LEASE:g}s", "KAFKA_WRITE_TIMEOUT": "2s", "RETRY_BASE_DELAY": "100ms"}
        env = {**pace, "HEALTH_CHECK_INTERVAL": "1s", "PUBLISHER_CONNECT_RETRY_INTERVAL": "500ms", **env}
        self._outbox = outbox
        self.all = [
            stack.enter_context(Daemon(outbox.relay_url, {**env, "RELAY_ID": f"relay-{number}"}))
            for number in range(count)
        ]
        self._frozen: dict[Daemon, float] = {}
        self.done: Counter[How] = Counter()

    def strike(self, how: How, port: int) -> bool:
        """Do it to the relay whose connection this is; false where it is no relay's."""
        struck = next((one for one in self.all if has_port(one.pid, port)), None)
        if struck is None or (how is How.FREEZE and struck in self._frozen):
            return False
        if how is How.KILL:
            os.kill(struck.pid, signal.SIGKILL)
            return True  # counted when it is started again
        if how is How.FREEZE:
            self._frozen[struck] = time.monotonic()
            os.kill(struck.pid, signal.SIGSTOP)
        self.done[how] += 1
        return True

    def kill_a_busy_one(self, rng: random.Random) -> None:
        """SIGKILL to one that has claimed something just now."""

        def busy() -> list[Daemon]:
            self.tend()
            holders = {holder for (holder,) in self._outbox.database.run(_HOLDERS, [LEASE / 2])}
            return [one for one in self._awake() if one.env["RELAY_ID"] in holders]

        os.kill(rng.choice(wait_until(busy, 60, "a relay to have leases")).pid, signal.SIGKILL)

    def tend(self, *, all_awake: bool = False) -> bool:
        """Thaw and start what is due; whether no relay is frozen."""
        for one, since in list(self._frozen.items()):
            if one.process.poll() is None and time.monotonic() - since < _FROZEN:
                continue
            del self._frozen[one]
            if one.process.poll() is None:
                os.kill(one.pid, signal.SIGCONT)
        for one in self.all:
            if (code := one.process.poll()) is not None:
                assert code == -signal.SIGKILL, one.log()[-4000:]
                self.done[How.KILL] += 1
                one.start()
        return not (all_awake and self._frozen)

    def _awake(self) -> list[Daemon]:
        return [one for one in self.all if one not in self._frozen]


class Scene:
    """A backlog that grows by ``share`` with each fault."""

    def __init__(
        self, outbox: Outbox, broker: Broker, relays: Relays, reader: Reader, *, share: int, rng: random.Random
    ) -> None:
        self._outbox, self._broker, self._relays, self._reader = outbox, broker, relays, reader
        self._share, self._rng = share, rng
        self.requests = broker.proxy.tap = KafkaRequests(broker.proxy)
        broker.proxy.delay = 0.05  # of every answer, so that much is in flight at each fault
        self.missed: list[Fault] = []
        self.events = 0

    def play(self, faults: Sequence[Fault]) -> None:
        """Each while a relay that had leases is killed: so there is work for finders, and relays that start."""
        for fault in faults:
            if fault.how is How.FREEZE:  # one at a time
                wait_until(lambda: self._relays.tend(all_awake=True), 60, "the frozen relay to be thawed")
            self.grow(fault.how.value)
            self._play(fault)

    def _play(self, fault: Fault) -> None:
        began = time.monotonic()
        met = self.requests.at(fault.moment, partial(self._relays.strike, fault.how), cut=fault.how is How.CUT)
        self._relays.kill_a_busy_one(self._rng)
        try:
            wait_until(lambda: self._relays.tend() and met.is_set(), _MET_WITHIN, f"{fault}")
        except TimeoutError:
            self.requests.forget()
            self.missed.append(fault)
        print(
            f"{time.strftime('%T')} {fault.how.value} at {fault.moment}: {time.monotonic() - began:.1f} s", flush=True
        )

    def through(self, label: str, outage: Callable[[], None]) -> None:
        """An outage of a server, amid deliveries."""
        self.grow(label)
        self._relays.kill_a_busy_one(self._rng)
        began = time.monotonic()
        outage()
        print(f"{time.strftime('%T')} {label}: {time.monotonic() - began:.1f} s", flush=True)
        self._relays.tend()

    def grow(self, label: str) -> None:
        """More events, once less than as many are left; ``label`` of what happens next."""
        wait_until(lambda: self._relays.tend() and self._left() <= self._share, 180, "the backlog to shrink")
        self._reader.label = label
        self._reader.expect(self._share)
        self._outbox.fill(self._broker.destination, self._share)
        self.events += self._share

    def finish(self) -> None:
        """Let all be delivered and seen, and stop the relays."""
        self._broker.proxy.delay = 0.0
        wait_until(lambda: self._relays.tend(all_awake=True), 60, "every relay to run")
        wait_until(lambda: self._relays.tend() and not self._left(), 180, "every event to be delivered")
        wait_until(lambda: len(self._reader.seen) >= self.events, 60, "the reader to see every event")
        assert [one.stop() for one in self._relays.all] == [0] * len(self._relays.all)

    def _left(self) -> int:
        return int(self._outbox.database.run(_LEFT)[0][0])
