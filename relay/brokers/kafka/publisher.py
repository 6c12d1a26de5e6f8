"""Events to Kafka: idempotent, acknowledged by all in-sync replicas, through librdkafka.

Every message stands for itself: a slow or failing one holds up no other. A broker refuses a whole batch when one
message in it is too large or invalid; the members of such a batch are offered again one by one, through a second
producer whose batches hold a single message, and only there is the refusal taken for the message's own.

A producer that breaks fatally (a lost or fenced idempotent sequence) is replaced without anybody's help; what it
held is released. The reason of a refused login or TLS handshake never comes with a message but as an error of the
client: it is kept until the broker answers again, and every failed probe names it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from relay.brokers.kafka.errors import BATCH_REFUSALS, FATAL_BUT_OPERATORS_TASK, REFUSED_LOGIN, classify
from relay.brokers.kafka.options import KafkaOptions, producer_config, redacted
from relay.brokers.kafka.session import Failure, Lane, LaneEvents
from relay.brokers.resolving import Entry, resolve
from relay.core.errors import BrokerUnreachable, ConfigError
from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome, OutcomeSink, Transient, Unreachable

__all__ = ["KafkaOptions", "KafkaPublisher"]

_log = logging.getLogger(__name__)
_LIBRARY_LOG = logging.getLogger("librdkafka")
_SAME_LINE_EVERY = 30.0  # seconds; librdkafka repeats itself at every attempt to connect
_CLOSE_WITHIN = 1.8  # seconds
_NUMBER = re.compile(r"\d+")  # it numbers its clients and tells milliseconds


class KafkaPublisher:
    """Publishes through one producer, and lone messages through another; see the module's text."""

    name = "kafka"

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._config: dict[str, Any] = {}
        self._main: Lane | None = None
        self._alone: Lane | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusal = ""
        """Why login or TLS was refused last; empty since the broker answered."""
        self._trouble = ""
        """What went wrong with a connection last; empty since the broker answered."""

    async def open(self) -> None:
        """Check the configuration. Raises ConfigError naming the property; connects to nobody yet."""
        config = producer_config(self._options)
        try:
            # A trial: librdkafka writes what it dislikes straight to standard error unless it is told to be silent.
            await asyncio.to_thread(lambda: Producer(config | {"log_level": 0}) and None)
        except KafkaException as error:
            raise ConfigError(f"PUBLISHER_URL or KAFKA_*: {redacted(error.args[0].str(), config)}") from None
        _LIBRARY_LOG.addFilter(_once_in_a_while)
        self._config = config | {"logger": _LIBRARY_LOG}

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event; waits while the client's queue is full."""
        if events:
            await self._main_lane().offer(events, sink)

    async def probe(self, timeout: float) -> None:
        """Ask any broker for metadata over the producer's own connections; nothing is answered from a cache."""
        lane = self._main_lane()
        try:
            await asyncio.wait_for(asyncio.to_thread(lane.ask, timeout), timeout + 0.1)
        except TimeoutError:
            lane.serve()  # the cause may wait to be reported
            raise BrokerUnreachable(self._reason(f"no answer within {timeout:g} s")) from None
        except KafkaException as error:
            lane.serve()
            raise BrokerUnreachable(self._reason(error.args[0].str())) from None
        self._refusal = self._trouble = ""

    async def abandon(self, reason: str) -> None:
        """Purge and destroy the producers; the next publish or probe makes a new one."""
        await self._retire(Unreachable(reason))

    async def close(self) -> None:
        """Abandon what is left."""
        closing = asyncio.create_task(self.abandon("the publisher was closed"))
        await asyncio.wait({closing}, timeout=_CLOSE_WITHIN)

    async def _retire(self, outcome: Outcome) -> None:
        lanes = [lane for lane in (self._main, self._alone) if lane is not None]
        self._main = self._alone = None
        await asyncio.gather(*(lane.retire(outcome) for lane in lanes))
        # What waited to be offered alone finds its lane ended and resolves itself.
        await asyncio.gather(*(task for task in self._tasks if task is not asyncio.current_task()))

    def _main_lane(self) -> Lane:
        if self._main is None:
            self._main = self._make_lane(self._config)
        return self._main

    def _alone_lane(self) -> Lane:
        if self._alone is None:
            self._alone = self._make_lane(self._config | {"batch.num.messages": 1, "linger.ms": 0})
        return self._alone

    def _make_lane(self, config: dict[str, Any]) -> Lane:
        lane: Lane

        def on_error(error: KafkaError) -> None:
            self._note_error(error)
            if error.fatal():
                # not within the poll that reports it
                asyncio.get_running_loop().call_soon(self._replace, lane, Failure(error.name(), error.str(), True))

        events = LaneEvents(failed=lambda failures: self._on_failures(lane, failures), error=on_error)
        lane = Lane(config, events, receipts=self._options.receipts)
        return lane

    def _on_failures(self, lane: Lane, failures: list[tuple[Entry, Failure]]) -> None:
        """Sort what failed: offered again alone, or resolved; a fatal failure replaces the producer."""
        again = [entry for entry, failure in failures if failure.code in BATCH_REFUSALS and lane is not self._alone]
        if again:
            self._start(self._offer_alone(self._alone_lane(), again))
        resolve(
            [
                (entry, classify(failure.code, failure.text))
                for entry, failure in failures
                if failure.code not in BATCH_REFUSALS or lane is self._alone
            ]
        )
        fatal = next((failure for _, failure in failures if failure.fatal), None)
        if fatal is not None:
            self._replace(lane, fatal)

    async def _offer_alone(self, lane: Lane, entries: list[Entry]) -> None:
        for event, sink in entries:
            await lane.offer([event], sink)

    def _replace(self, lane: Lane, failure: Failure) -> None:
        """Retire a lane that broke; what it held is released, unless only an operator can mend the cause."""
        if lane.ended_as is not None:
            return
        _log.warning("the Kafka client broke and is made anew: %s: %s", failure.code, failure.text)
        if lane is self._main:
            self._main = None
        if lane is self._alone:
            self._alone = None
        if failure.code in FATAL_BUT_OPERATORS_TASK:
            self._start(lane.retire(Transient(failure.code, failure.text)))
        else:
            self._start(lane.retire(Unreachable(f"{failure.code}: {failure.text}")))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _note_error(self, error: KafkaError) -> None:
        text = redacted(f"{error.name()}: {error.str()}", self._config)
        if error.name() in REFUSED_LOGIN:
            self._refusal = text
        elif error.name() != "_ALL_BROKERS_DOWN":  # it only follows from the others
            self._trouble = text

    def _reason(self, otherwise: str) -> str:
        return self._refusal or self._trouble or otherwise


def _once_in_a_while(record: logging.LogRecord, _seen: dict[str, float] = {}) -> bool:  # noqa: B006  # is its memory
    """Let the same line of librdkafka, its numbers aside, through once in half a minute."""
    text, now = _NUMBER.sub("#", record.getMessage()), time.monotonic()
    if now - _seen.get(text, -_SAME_LINE_EVERY) < _SAME_LINE_EVERY:
        return False
    if len(_seen) > 1000:
        _seen.clear()
    _seen[text] = now
    return True
