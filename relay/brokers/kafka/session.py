"""One librdkafka producer, polled by the event loop; used by the Kafka publisher only.

librdkafka works in threads of its own, without the interpreter; its reports wait in a queue until the next poll. The
event loop polls every millisecond while answers come: a polling thread would take the interpreter's lock for each
report, and would wait for it while the loop has work.

A session that keeps runs (order per key) stops for good when a message fails: librdkafka sends nothing of what is
behind it, and the publisher ends the session. It waits for answers as long as ``run_timeout`` says, because a timeout
of librdkafka's own would drop one message and send the next.

A session ends once and is not used again (``end``): its queues are purged, in-flight requests included, and the
producer is destroyed with its connections, so that a half-sent request cannot be completed later.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

from confluent_kafka import KafkaError, KafkaException, Producer, ThrottleEvent

from relay.brokers.entries import Entry, resolve
from relay.brokers.kafka.errors import refused_message
from relay.brokers.kafka.headers import formatted_headers, message_headers
from relay.brokers.kafka.offer import Failure, Offer, Reports
from relay.brokers.kafka.options import KafkaOptions
from relay.brokers.kafka.stamps import RefusedTimes, Stamp
from relay.core.durations import in_words
from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome, OutcomeSink, Permanent, Resolution, Unreachable, Withheld

_log = logging.getLogger(__name__)
_POLL = 0.001  # seconds between two polls while reports come
_LONGEST_POLL = 0.02  # seconds between two polls while an answer is missing, at most
_IDLE_POLL = 0.5  # seconds between two polls of an idle client, which has only errors to report
_ROOM_POLL = 0.1  # seconds between two looks for room in a full queue
_PURGE_WITHIN = 0.5  # seconds for the reports of purged messages; the producer's end drops the rest
_LONG_THROTTLE = 1.0  # seconds; shorter ones only slow a client down
_SLICE = 400  # events offered before other work of the event loop gets its turn (about 2 ms)
_SLICE_BYTES = 1 << 21


class SessionCallbacks(NamedTuple):
    """What a session reports to its publisher, from within ``serve``."""

    failed: Callable[[list[tuple[Entry, Failure]]], None]
    error: Callable[[KafkaError], None]


class KafkaSession:
    """A producer in use. Only the event loop's thread creates and calls it."""

    def __init__(
        self,
        config: dict[str, Any],
        options: KafkaOptions,
        callbacks: SessionCallbacks,
        *,
        refused_topic: Callable[[str], Permanent | None],
        stamp: Stamp,
        refused_times: RefusedTimes,
        run_timeout: float | None,
    ) -> None:
        """``run_timeout``: seconds for the answers to an offer, in a session that keeps runs; None in others."""
        self.ended_as: Outcome | None = None
        """None until ``end``; then the outcome of every event that was still unanswered."""
        self.throttled_until = float("-inf")
        """Until when a broker lets this client wait, for a quota; seconds on the event loop's clock."""
        producer = Producer(config | {"error_cb": callbacks.error, "throttle_cb": self._note_throttle})
        self._producer: Producer | None = producer
        """None once the session has ended and the last reports are read."""
        self._callbacks = callbacks
        self._limit: int = config["message.max.bytes"]
        self._loop = asyncio.get_running_loop()
        self._receipts = options.receipts
        self._refused_topic = refused_topic
        self._message_format, self._now = options.message_format, options.now
        self.stamp = stamp
        self._own_time = refused_times.own_time
        self._run_timeout = run_timeout
        self._start_timeout = options.connection_timeout
        """Seconds more until the first answer: one that ends too soon would be followed by another that connects."""
        self._room = asyncio.Event()
        self._offers: dict[Offer, None] = {}
        """Those with unanswered events, in the order of the calls."""
        self._reports = Reports()
        self._delay = _IDLE_POLL
        self._timer = self._loop.call_later(_IDLE_POLL, self._on_timer)
        self._ending: asyncio.Task[None] | None = None

    async def offer(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Hand every event to the producer, in order; waits while its queue is full."""
        at, offer = 0, Offer(len(events), sink, self._reports)
        while at < len(events):
            if self._run_timeout is not None and at:
                self.serve()  # what has failed meanwhile ends the session before more of its run is handed over
            if self.ended_as is not None:
                sink([(event, self.ended_as) for event in events[at:]])
                return
            self._room.clear()
            done, full = self._offer_slice(events, at, offer)
            at += done
            if self._run_timeout is not None:
                offer.deadline = self._loop.time() + self._run_timeout + self._start_timeout
            self._poll_soon()
            if full:
                with suppress(TimeoutError):  # room may also appear without a report: try again
                    await asyncio.wait_for(self._room.wait(), _ROOM_POLL)
            elif at < len(events):
                await asyncio.sleep(0)

    def log_in(self, user: str, password: str) -> None:
        """The login of every connection from now on."""
        if self._producer is not None:
            self._producer.set_sasl_credentials(user, password)

    def serve(self) -> bool:
        """Take the client's reports; return whether there were any.

        A fatal error is raised by ``poll`` and not passed to ``error_cb``.
        """
        if (producer := self._producer) is None:
            return False
        try:
            producer.poll(0)
        except KafkaException as error:
            self._callbacks.error(error.args[0])
        finally:  # whatever a callback raised: these reports do not come again
            reported = bool(self._reports.answered)
            self._pass_on()
        return reported

    @property
    def throttled(self) -> float:
        """Seconds for which a broker lets what the client holds wait; 0 where it holds nothing."""
        return max(0.0, self.throttled_until - self._loop.time()) if self._offers else 0.0

    async def answered(self) -> None:
        """Wait until everything that was offered is answered, or the session has ended."""
        while self._offers and self.ended_as is None:  # noqa: ASYNC110 - rare, and no hurry
            await asyncio.sleep(_LONGEST_POLL)

    def holds(self, keys: Collection[str]) -> bool:
        """Whether the client holds an event of one of these keys."""
        held = (event for offer in self._offers for event in offer.in_client if event is not None)
        return any(event.partition_key in keys for event in held)

    def end(self, outcome: Outcome) -> None:
        """End the session: from here on every report resolves its event as ``outcome``, acknowledgements excepted.

        Does not wait, so that no timer or report comes between the decision to end the session and its end; call
        ``gone`` afterwards.
        """
        if self.ended_as is None:
            self.ended_as = outcome
            self._room.set()
            self._timer.cancel()
            self._ending = self._loop.create_task(self._end())

    async def gone(self) -> None:
        """Wait for an ended session: on return every event is resolved and the producer destroyed."""
        ending, ended_as = cast("asyncio.Task[None]", self._ending), cast("Outcome", self.ended_as)
        await asyncio.wait({ending}, timeout=2 * _PURGE_WITHIN)
        offers, self._offers = self._offers, {}
        for offer in offers:
            if lost := offer.take_unanswered():
                offer.sink([(event, ended_as) for event in lost])

    def _note_throttle(self, event: ThrottleEvent) -> None:
        """The end is not reported but for the next connection: its first request goes through, and is answered."""
        if event.throttle_time >= _LONG_THROTTLE:
            self.throttled_until = max(self.throttled_until, self._loop.time() + event.throttle_time)

    def _pass_on(self) -> None:
        """Resolve what was acknowledged; the publisher decides on what failed, while the session is in use."""
        answered = self._reports.answered
        if answered:
            self._start_timeout = 0.0
            self._room.set()
        while answered:
            offer = answered.popleft()  # first: a sink that raises keeps back no other one's outcomes
            acknowledged = offer.take_acknowledged()
            if not offer.unanswered:
                self._offers.pop(offer, None)
            if acknowledged:
                offer.sink(acknowledged)
        if self._reports.failed:
            failed, self._reports.failed = self._reports.failed, []
            if self.ended_as is None or isinstance(self.ended_as, Withheld):
                # Ended because one event failed: others may have failed, too, and not because of it.
                self._callbacks.failed(failed)
            else:
                ended_as = self.ended_as
                resolve([(entry, ended_as) for entry, _ in failed])

    async def _end(self) -> None:
        """Purge, take the reports of that, and destroy the producer in a thread, since that joins its threads."""
        held = [cast("Producer", self._producer)]
        held[0].purge()
        deadline = time.monotonic() + _PURGE_WITHIN
        while len(held[0]) and time.monotonic() < deadline:
            self.serve()
            await asyncio.sleep(_POLL)
        self.serve()
        self._producer = None
        await asyncio.to_thread(held.clear)

    def _on_timer(self) -> None:
        """The timer's callback: polls fast while answers come, slower while one is missing, slowest when idle."""
        reported = True
        try:
            reported = self.serve()
        except Exception:  # noqa: BLE001 - without its timer the session would report nothing any more
            _log.exception("the Kafka client's reports could not be passed on", extra={"action": "publisher_error"})
        self._expire()
        if self.ended_as is not None:
            return
        if reported:
            self._delay = _POLL
        else:
            self._delay = min(2 * self._delay, _LONGEST_POLL) if self._offers else _IDLE_POLL
        self._timer = self._loop.call_later(self._delay, self._on_timer)

    def _expire(self) -> None:
        """Report the events of overdue offers as timed out, in a session that keeps runs; the publisher ends it."""
        if self._run_timeout is None:
            return
        overdue = [offer for offer in self._offers if offer.deadline <= self._loop.time()]
        timed_out = Failure("_MSG_TIMED_OUT", f"no acknowledgement in {in_words(self._run_timeout)}", True)
        entries: list[tuple[Entry, Failure]] = []
        for offer in overdue:
            lost = offer.take_unanswered()
            offer.unanswered -= len(lost)
            entries += [((event, offer.sink), timed_out) for event in lost]
        if entries:
            self._callbacks.failed(entries)

    def _poll_soon(self) -> None:
        """Poll fast again: events were offered."""
        if self._delay > _POLL and self.ended_as is None:
            self._delay = _POLL
            self._timer.cancel()
            self._timer = self._loop.call_later(_POLL, self._on_timer)

    def _offer_slice(self, events: Sequence[OutboxEvent], start: int, offer: Offer) -> tuple[int, bool]:
        """Offer some events from ``start`` on; return how many are done and whether the queue is full now."""
        producer = cast("Producer", self._producer)  # None only after ended_as is set
        produce, in_client, message_format = producer.produce, offer.in_client, self._message_format
        note, note_restamped = offer.notes(receipts=self._receipts)
        refused_topic, refused = self._refused_topic, list[Resolution]()
        at, size, full, seconds, stamps_now = start, 0, False, self._now(), self.stamp is Stamp.NOW
        now, own_time = int(seconds * 1000), self._own_time
        for at in range(start, min(start + _SLICE, len(events))):
            event = events[at]
            topic = event.event_type
            invalid = self._behind_refused(event, offer.ended) if offer.ended else refused_topic(topic)
            if invalid is not None:
                self._refuse(event, invalid, offer, refused)
                continue
            in_client[at] = event
            if message_format is None:
                payload, headers = event.payload, message_headers(event)
            else:
                message = message_format(event)
                payload, headers = message.payload, formatted_headers(event, message)
            try:
                # By position: a third less than by name for a call that does little else (partition, callback, its
                # alias, timestamp).
                stamp = now if stamps_now else own_time(event, seconds, self.stamp)
                report = partial(note if stamp else note_restamped, at)
                produce(topic, payload, event.partition_key, -1, report, None, stamp or now, headers)
            except BufferError:
                in_client[at] = None
                full = True
                break
            except KafkaException as error:
                in_client[at] = None
                self._refuse(event, refused_message(event, error.args[0], self._limit), offer, refused)
            size += len(payload)
            if size > _SLICE_BYTES:
                break
        done = at - start + (not full)
        self._note_offered(offer, done, refused)
        return done, full

    def _note_offered(self, offer: Offer, done: int, refused: list[Resolution]) -> None:
        """Count what the client has taken, and resolve what it has not."""
        if done > len(refused):
            offer.unanswered += done - len(refused)
            self._offers[offer] = None
        if refused:
            offer.sink(refused)

    def _refuse(self, event: OutboxEvent, outcome: Outcome, offer: Offer, refused: list[Resolution]) -> None:
        """Note the outcome of an event that the client did not take; with runs, those behind it are withheld."""
        if self._run_timeout is not None:
            offer.ended.add(event.partition_key)
            if isinstance(outcome, Unreachable):  # the client has failed, and is replaced
                outcome = Withheld(outcome.reason)
        refused.append((event, outcome))

    def _behind_refused(self, event: OutboxEvent, ended: Collection[str | None]) -> Outcome | None:
        """The outcome of an event behind others of which some were refused; None when it may be handed over."""
        if event.partition_key and event.partition_key in ended:
            return Withheld("an earlier event of its key was refused")
        return self._refused_topic(event.event_type)
