"""One Kafka transaction, and the producers that take turns with them; used by ``relay.brokers.kafka.transactions``.

The client's calls block, so a transaction runs in a thread. Whether its commit may be asked for is decided under a
lock, against the one who gives it up: what is given up before will never be committed, whatever else fails.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from relay.brokers.kafka.errors import COLLATERAL, FENCED, refused_message
from relay.brokers.kafka.headers import KafkaHeaders
from relay.brokers.kafka.offer import Failure, failure_of, receipt_of
from relay.brokers.kafka.proofs import Record
from relay.core.clock import steady_seconds
from relay.core.durations import in_words
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import Outcome, Receipt

_STEP: Final = 0.1  # seconds of one wait, between two looks whether it was given up
_COMMIT_STEP: Final = 1.0
_ABORT_WITHIN: Final = 0.5  # a producer that takes longer is replaced, which aborts, too
_PAUSE: Final = 0.05
_PURGED_WITHIN: Final = 10.0  # seconds; it takes some thousandths of one
_CONTESTED: Final = 5.0  # seconds in which another relay of the same id begins an epoch again, where it goes on

NO_COORDINATOR: Final = KafkaError._TIMED_OUT  # noqa: SLF001 - the client's own code
"""Of ``begin_epoch``, where no answer came."""
_FEWER: Final = (
    "fewer than three brokers need transaction.state.log.replication.factor=1 and transaction.state.log.min.isr=1"
)
_NONE: Final = "no coordinator of transactions answered within"

_LATE: Final = Failure("_TIMED_OUT", "the transaction was not filled in time", False)
_SAYS_NO_CAUSE: Final = COLLATERAL | {"_STATE"}

Produced = tuple[str, bytes, str | None, KafkaHeaders, int]
"""Topic, value, key, headers and time."""


class End(Enum):
    """How a transaction has ended."""

    COMMITTED = auto()
    ABORTED = auto()
    """It will never be committed."""
    UNKNOWN = auto()
    """Its commit was asked for, and is not this producer's to decide any more."""


class Transaction:
    """``run`` once, in a thread; what it has found out may be read afterwards."""

    def __init__(
        self,
        events: Sequence[OutboxEvent],
        proofs: Callable[[frozenset[EventId]], Sequence[Record]],
        proofs_topic: str,
        produced: Callable[[OutboxEvent], Produced],
        filled: Callable[[], object],
        *,
        seconds: float,
        receipts: bool,
        limit: int,
    ) -> None:
        """``proofs`` of the events without the refused ones; ``limit`` is the client's own on a message's bytes.

        ``filled`` is called once the broker has all messages, or one has failed; from the thread of ``run``.
        """
        self.events = events
        self.refused: dict[EventId, Outcome] = {}
        """Events that the client itself did not take; they are in no transaction."""
        self.failed: dict[EventId, Failure] = {}
        """Events that are to blame for the abort."""
        self.error: Failure | None = None
        """Why it was aborted, where no event is to blame."""
        self.receipts: dict[EventId, Receipt] = {}
        self._proofs, self._proofs_topic = proofs, proofs_topic
        self._produced, self._filled = produced, filled
        self._with_receipts, self._limit = receipts, limit
        self._until = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._given_up = self._ends = False
        self._decided = False
        """Its commit may have been asked for."""
        self._over = False
        """``run`` has returned: what a producer that is destroyed still reports is nothing to it."""

    def give_up(self) -> bool:
        """It will not be committed, unless its commit may have been asked for: then false."""
        with self._lock:
            self._given_up = not self._decided
            return self._given_up

    def leave(self) -> None:
        """The process ends: the answer to a commit is not waited for any more."""
        self._ends = True

    def run(self, producer: Producer) -> tuple[End, bool]:
        """How it has ended, and whether the producer can be used again."""
        try:
            return self._run(producer)
        finally:
            self._over = True

    def _run(self, producer: Producer) -> tuple[End, bool]:
        try:
            producer.begin_transaction()
            self._fill(producer)
            self._flush(producer)
        except KafkaException as error:
            self.error = failure_of(error.args[0])
        except Exception as error:  # noqa: BLE001 - a message that cannot be made
            self.error = Failure(type(error).__name__, str(error), False)
        self._filled()
        with self._lock:
            self._decided = not (self._given_up or self.failed or self.error)
        if self._decided:
            return self._commit(producer)
        self._find_cause(producer)
        if self.error is not None and self.error.fatal:  # nothing can be asked of it any more; a new epoch aborts
            return End.ABORTED, False
        try:
            producer.abort_transaction(_ABORT_WITHIN)
        except KafkaException as error:
            failure = failure_of(error.args[0])
            if failure.fatal:
                self.error = failure
            return End.ABORTED, False
        return End.ABORTED, self.error is None or not self.error.fatal

    def _find_cause(self, producer: Producer) -> None:
        """Where the client has aborted it: asked to commit, it says why, and does not commit."""
        if self.error is None or self.error.code not in _SAYS_NO_CAUSE or self._given_up or self.failed:
            return
        try:
            producer.commit_transaction(_STEP)
        except KafkaException as error:
            self.error = failure_of(error.args[0])

    def _fill(self, producer: Producer) -> None:
        produced, produce, report = self._produced, producer.produce, self._report
        for event in self.events:
            if self._given_up or self.failed or self.error:
                return
            topic, value, key, headers, stamp = produced(event)
            message = topic, value, key, -1, partial(report, event), None, stamp, headers
            try:
                try:
                    produce(*message)
                except BufferError:
                    self._produce(producer, *message)
            except KafkaException as error:
                if error.args[0].fatal() or error.args[0].name() in _SAYS_NO_CAUSE:
                    raise  # the transaction is over; it says nothing about the event
                self.refused[event.event_id] = refused_message(event, error.args[0], self._limit)
        if len(self.refused) == len(self.events):
            return
        for holder, value, timestamp in self._proofs(frozenset(self.refused)):
            self._produce(producer, self._proofs_topic, value, holder, 0, self._report_proof, None, timestamp)

    def _produce(self, producer: Producer, *message: Any) -> None:  # noqa: ANN401 - as the client takes it
        """Wait until the client's queue has room for it."""
        while True:
            try:
                producer.produce(*message)
            except BufferError:
                producer.poll(_STEP)
                if time.monotonic() > self._until:
                    self.error = _LATE
                if self._given_up or self.failed or self.error:
                    return
            else:
                return

    def _flush(self, producer: Producer) -> None:
        while producer.flush(_STEP) and not (self._given_up or self.failed or self.error):
            if time.monotonic() > self._until:
                self.error = _LATE
                return
        producer.poll(0)

    def _report(self, event: OutboxEvent, error: KafkaError | None, message: Message) -> None:
        if self._over:
            return
        if error is None:
            if self._with_receipts:
                self.receipts[event.event_id] = receipt_of(message)
        elif error.fatal() or error.name() in FENCED:
            self.error = failure_of(error)
        elif error.name() not in COLLATERAL:
            self.failed[event.event_id] = failure_of(error)
        elif self.error is None:
            self.error = failure_of(error)

    def _report_proof(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and not self._over and (self.error is None or error.fatal()):
            self.error = failure_of(error)

    def _commit(self, producer: Producer) -> tuple[End, bool]:
        """Asked for again while its answer is lost; never aborted."""
        while True:
            try:
                producer.commit_transaction(_COMMIT_STEP)
            except KafkaException as error:
                self.error = failure_of(error.args[0])
                if self._ends or not error.args[0].retriable():
                    return End.UNKNOWN, False
                time.sleep(_PAUSE)
            else:
                self.error = None
                return End.COMMITTED, True


class Epoch(NamedTuple):
    """A producer whose ``init_transactions`` has returned."""

    producer: Producer
    since: float
    """``steady_seconds`` after that: it carries nothing that was claimed before."""


def begin_epoch(config: Mapping[str, Any], timeout: float) -> Epoch:
    """Decide what the transactional id has left open, and end its epoch before. Raises KafkaException."""
    producer = Producer(dict(config))
    producer.poll(0)  # a token is asked for here
    until = time.monotonic() + timeout
    while True:
        try:
            producer.init_transactions(max(until - time.monotonic(), _STEP))
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            if time.monotonic() >= until:
                raise KafkaException(KafkaError(NO_COORDINATOR, f"{_NONE} {in_words(timeout)}; {_FEWER}")) from None
            time.sleep(_PAUSE)
        else:
            return Epoch(producer, steady_seconds())


def destroy(held: list[Producer]) -> None:
    """Destroy the producer that only this list refers to. Blocks, since that joins the client's threads.

    None of its requests may be unanswered: librdkafka frees the text of a fatal error twice where an answer brings such
    an error while it is destroyed (seen with 2.8 to 2.16), and the process aborts.
    """
    producer = held.pop()
    with suppress(KafkaException):
        producer.purge()
        producer.flush(_PURGED_WITHIN)


def keeps_epoch(config: Mapping[str, Any], timeout: float, topic: str) -> bool:
    """Begin an epoch; whether it is the last one still after some seconds. Raises KafkaException.

    Of several relays that do so with one transactional id and then wait, exactly one keeps its epoch.
    """
    producer = begin_epoch(config, timeout).producer
    time.sleep(_CONTESTED)
    try:
        producer.begin_transaction()
        producer.produce(topic, b"", partition=0)  # which no reader of committed messages sees
        producer.flush(_CONTESTED)
        producer.abort_transaction(_CONTESTED)
    except KafkaException as error:
        if error.args[0].fatal():
            return False
        raise
    finally:
        destroy([producer])
    return True


class Slot:
    """One transactional id of this relay; one transaction at a time."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.epoch: Epoch | None = None
        self.busy = False
        """It carries events, or is being prepared."""
        self.in_doubt = False
        """It is not known yet what became of its last transaction."""

    def log_in(self, user: str, password: str) -> None:
        """The login of every connection from now on."""
        self.config |= {"sasl.username": user, "sasl.password": password}
        if self.epoch is not None:
            with suppress(KafkaException):
                self.epoch.producer.set_sasl_credentials(user, password)
