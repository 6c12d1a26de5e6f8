"""Events to Kafka: idempotent, acknowledged by all in-sync replicas, through librdkafka.

Messages are independent: a slow or failing one delays no other. A broker refuses a whole batch when one message in it
is too large or invalid. The messages of such a batch are offered again one by one, over a second session whose batches
hold a single message; only a refusal there is the message's own outcome. One whose time is refused
(KAFKA_TIMESTAMP=created_at) is offered again over a third session, which stamps with now.

In order per key events with a key go over a session that keeps runs (``Publisher.keeps_runs``): when a message fails,
librdkafka sends nothing more, the session ends, and all that it has no answer for is withheld. The members of a refused
batch are offered again one by one, each of a key once the one before is acknowledged. An event that has failed before
is alone in its key, and goes over the first session, so that it does not end the other one each time.

The probe has a connection of its own (``relay.brokers.kafka.probe``): slow acknowledgements are no outage.

A broker that throttles (a quota) answers a request with the time for which it reads no more from this client. What the
client holds then expires unread, in its queue or on the way. That is no failure of an event: no attempt is used. The
client does not say which of its messages it had sent, so what decides is that a broker throttled it meanwhile.

A session that fails fatally (a lost or fenced idempotent sequence) is replaced automatically and its events are
released. librdkafka reports a refused login or TLS handshake as an error of the client, never with a message: the
reason stands until the broker answers again, and every failed probe names it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from relay.brokers.entries import Entry, resolve
from relay.brokers.kafka.certificates import CertificateFiles, try_out
from relay.brokers.kafka.errors import (
    BATCH_REFUSALS,
    COLLATERAL,
    FATAL_UNTIL_GRANTED,
    GAPLESS,
    REFUSED_LOGIN,
    classify,
    invalid_topic,
)
from relay.brokers.kafka.librarylog import LIBRARY_LOG, not_repeated
from relay.brokers.kafka.offer import Failure
from relay.brokers.kafka.options import KafkaOptions, plain_error, producer_config, refusal, run_config
from relay.brokers.kafka.probe import KafkaProbe
from relay.brokers.kafka.proofs import topic_of
from relay.brokers.kafka.session import KafkaSession, SessionCallbacks
from relay.brokers.kafka.stamps import REFUSED_TIME, RefusedTimes, Stamp
from relay.brokers.login import present
from relay.core.durations import in_words
from relay.core.errors import BrokerRefused, BrokerUnreachable, ConfigError
from relay.core.event import OutboxEvent
from relay.core.origins import login_of
from relay.core.outcome import Acknowledged, Away, Outcome, OutcomeSink, TimedOut, Transient, Unreachable, Withheld
from relay.core.ports import Publisher, SingleDestination
from relay.core.remembered import remembered
from relay.core.secrets import mask_values

_log = logging.getLogger(__name__)
_CLOSE_WITHIN = 1.8  # seconds
_ALONE = {"batch.num.messages": 1, "linger.ms": 0}
_THROTTLED = "a broker throttles this client (a quota of bytes or requests)"
_TLS_ALERT = "SSL alert number"  # in the text of a broken connection, which has no code of its own for it


class Use(Enum):
    """What a session is for; see the module's text."""

    MAIN = auto()
    RUNS = auto()
    ALONE = auto()
    RESTAMPING = auto()


class KafkaPublisher(SingleDestination):
    """Publishes over one session, runs and single messages over others; see the module's text."""

    name = "kafka"

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        reserved = topic_of(options.transactions_prefix)
        self.refused_topic = remembered(partial(invalid_topic, allowed=options.allowed_types, reserved=reserved))
        self.refused_times = RefusedTimes()
        self._config: dict[str, Any] = {}
        self._url = options.url
        self._run_config: dict[str, Any] | None = None
        self._abandoning = False
        self._sessions: dict[Use, KafkaSession] = {}
        self._probe: KafkaProbe | None = None
        self._retired: set[KafkaSession] = set()
        """Sessions that others have replaced, and that still wait for answers."""
        self._certificates = CertificateFiles({})
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusal = ""
        """Why login or TLS was refused last; empty after a successful probe."""
        self._trouble = ""
        """The last connection error; empty after a successful probe."""

    @property
    def keeps_runs(self) -> bool:
        """In order per key, unless the URL takes the order of a partition away. False before ``open``."""
        return self._run_config is not None

    @property
    def blocked(self) -> str:
        """How long a broker lets what the client holds wait."""
        seconds = max((session.throttled for session in self._sessions.values()), default=0.0)
        return f"{_THROTTLED}, for {seconds:.0f} s more" if seconds else ""

    async def open(self) -> None:
        """Check the configuration. Raises ConfigError naming the property; does not connect."""
        config = producer_config(self._options)
        await asyncio.to_thread(try_out, config, self._options)
        LIBRARY_LOG.addFilter(not_repeated)
        self._certificates = CertificateFiles(config)
        self._config = config | {"logger": LIBRARY_LOG}
        self._run_config = run_config(self._options)

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event; waits while the client's queue is full."""
        if self._sessions.keys().isdisjoint((Use.MAIN, Use.RUNS)):
            try:
                await self._renew()
            except BrokerUnreachable as error:
                lost = Unreachable(str(error))
                sink([(event, lost) for event in events])
                return
        runs: list[OutboxEvent] = []
        if self.keeps_runs:
            runs = [event for event in events if event.partition_key and event.last_code is None]
            events = [event for event in events if not event.partition_key or event.last_code is not None]
        if runs and events:  # side by side: a client that is full keeps the other one's events from nothing
            main, run = self._session(Use.MAIN), self._session(Use.RUNS)
            await asyncio.gather(main.offer(events, sink), run.offer(runs, sink))
        elif runs:
            await self._session(Use.RUNS).offer(runs, sink)
        elif events:
            await self._session(Use.MAIN).offer(events, sink)

    async def probe(self, timeout: float) -> None:
        """Ask any broker for metadata, over a connection of the probe's own."""
        await self._renew()
        if self._probe is None:
            try:
                self._probe = KafkaProbe(self._config, self._note_error)
            except KafkaException as error:  # a file that could be read at the start cannot be now
                raise BrokerRefused(refusal(error.args[0].str(), self._options)) from None
        probe = self._probe
        try:
            await probe.ask(timeout)
        except (TimeoutError, KafkaException) as error:
            probe.serve()  # the cause may still be unreported
            if self._refusal and self._options.live is not None:
                self._options.live.refused()
            reason = f"no answer within {in_words(timeout)}" if isinstance(error, TimeoutError) else error.args[0].str()
            if probe is self._probe:
                self._probe = None
                self._start(probe.close())
            raise (BrokerRefused if self._refusal else BrokerUnreachable)(self._reason(reason)) from None
        self._refusal = self._trouble = ""

    async def abandon(self, reason: str) -> None:
        """Purge and destroy all sessions; the next publish opens new ones."""
        lost = Unreachable(reason)
        self._abandoning = True
        sessions = [*self._sessions.values(), *self._retired]
        self._sessions = {}
        # Ended before the first await: a timer may be due, and what it reports must not open a new session.
        for session in sessions:
            session.end(lost)
        await asyncio.gather(*(session.gone() for session in sessions))
        # Sessions that were replaced before still hold messages until they are gone, and messages of a refused batch
        # may not have been offered again yet.
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self._abandoning = False

    async def close(self) -> None:
        closing = [asyncio.create_task(self.abandon("the publisher was closed"))]
        if self._probe is not None:
            probe, self._probe = self._probe, None
            closing.append(asyncio.create_task(probe.close()))
        await asyncio.wait(closing, timeout=_CLOSE_WITHIN)

    def twin(self) -> Publisher:
        """A publisher with a client, and so connections, of its own.

        It resends once, so that a cut is noticed in less than a second instead of four (five resends).
        """
        return KafkaPublisher(replace(self._options, max_attempts=1))

    async def _renew(self) -> None:
        """Give each client the login as it is now, ahead of time: librdkafka connects again without asking.

        Raises BrokerUnreachable where a command gives no password.
        """
        if self._certificates.changed():
            await self._renew_clients()
        url = (await present(self._options)).url
        if url == self._url:
            return
        self._url = url
        user, password = login_of(url)
        if not user:  # a token, which librdkafka asks for
            return
        self._config |= {"sasl.username": user, "sasl.password": password}
        for client in self._clients():
            if client is not None:
                client.log_in(user, password)

    async def _renew_clients(self) -> bool:
        """Take new clients, which read the files of certificates; False where they cannot. Others end once idle."""
        try:
            await asyncio.to_thread(try_out, self._config, self._options)
        except ConfigError as error:  # a pair of which one file is new, for example
            _log.warning("the new certificates are not used: %s", error, extra={"action": "secret_unread"})
            return False
        _log.info("the files of certificates have changed: new clients read them", extra={"action": "secret_renewed"})
        if self._probe is not None:
            probe, self._probe = self._probe, None
            self._start(probe.close())
        if Use.RUNS in self._sessions:
            self._replace(self._sessions[Use.RUNS], Failure(GAPLESS, "its certificates have changed", True))
        for session in self._sessions.values():
            self._retired.add(session)
            self._start(self._retire(session))
        self._sessions = {}
        return True

    async def _retire(self, session: KafkaSession) -> None:
        await session.answered()
        self._retired.discard(session)
        session.end(Unreachable("its certificates have changed"))
        await session.gone()

    def _clients(self) -> Iterable[Any]:
        """What holds connections, or None in its place."""
        return (*self._sessions.values(), self._probe)

    def _session(self, use: Use) -> KafkaSession:
        if use not in self._sessions:
            self._sessions[use] = self._new_session(use)
        return self._sessions[use]

    def _second_try(self, session: KafkaSession, event: OutboxEvent, failure: Failure) -> KafkaSession | None:
        """What a refused message is offered again over; None where the refusal is its own."""
        refused_time = failure.code == REFUSED_TIME and session.stamp is Stamp.CREATED_AT
        alone, restamping = self._sessions.get(Use.ALONE), self._sessions.get(Use.RESTAMPING)
        if session is alone and refused_time:
            self.refused_times.refused(event, self._options.now())
            return self._session(Use.RESTAMPING)
        if session not in (alone, restamping) and (failure.code in BATCH_REFUSALS or refused_time):
            return self._session(Use.ALONE)
        return None

    def _new_session(self, use: Use) -> KafkaSession:
        def on_error(error: KafkaError) -> None:
            self._note_error(error)
            if error.fatal():
                # Later, not within the poll that reports it: the replacement ends the session that is polled.
                asyncio.get_running_loop().call_soon(self._replace, session, Failure(error.name(), error.str(), True))

        runs = use is Use.RUNS
        more = {Use.MAIN: {}, Use.RUNS: self._run_config or {}}.get(use, _ALONE)
        failed = self._on_failures_in_order if runs else self._on_failures
        events = SessionCallbacks(failed=lambda failures: failed(session, failures), error=on_error)
        session = KafkaSession(
            self._config | more,
            self._options,
            events,
            refused_topic=self.refused_topic,
            stamp=Stamp.NOW_INSTEAD if use is Use.RESTAMPING else Stamp(self._options.timestamp),
            refused_times=self.refused_times,
            run_timeout=self._options.write_timeout if runs else None,
        )
        return session

    def _on_failures(self, session: KafkaSession, failures: list[tuple[Entry, Failure]]) -> None:
        """Offer messages of a refused batch again one by one, resolve the others; a fatal one ends the session."""
        again: dict[KafkaSession, list[Entry]] = {}
        outcomes: list[tuple[Entry, Outcome]] = []
        for entry, failure in failures:
            if (other := self._second_try(session, entry[0], failure)) is not None:
                again.setdefault(other, []).append(entry)
            else:
                outcomes.append((entry, self._outcome(session, failure)))
        for other, entries in again.items():
            self._start(self._offer_alone(other, entries))
        resolve(outcomes)
        fatal = next((failure for _, failure in failures if failure.fatal), None)
        if fatal is not None:
            self._replace(session, fatal)

    def _on_failures_in_order(self, session: KafkaSession, failures: list[tuple[Entry, Failure]]) -> None:
        """Resolve messages of a session that keeps runs; what is behind a failed one is withheld.

        Ends the session when it holds more of these runs. librdkafka reports a failure that it goes no further after
        as an error of the client. Messages of a refused batch are offered again, one after the other.
        """
        again: dict[str, list[tuple[KafkaSession, Entry]]] = {}
        outcomes: list[tuple[Entry, Outcome]] = []
        ended: set[str] = set()
        blamed: Failure | None = None
        for entry, failure in failures:
            event = entry[0]
            run = event.partition_key or event.event_id
            if failure.code in COLLATERAL or run in ended or self._abandoning:
                outcomes.append((entry, Withheld(f"{failure.code}: {failure.text}")))
                ended.add(run)
                continue
            blamed = blamed or failure
            if (other := self._second_try(session, entry[0], failure)) is not None:
                again.setdefault(run, []).append((other, entry))
            else:
                outcomes.append((entry, self._outcome(session, failure)))
                ended.add(run)
        for entries in again.values():
            self._start(self._offer_in_turn(entries))
        resolve(outcomes)
        if blamed is not None and (blamed.fatal or session.holds(ended | again.keys())):
            self._replace(session, Failure(GAPLESS, f"{blamed.code}: {blamed.text}", True))

    def _outcome(self, session: KafkaSession, failure: Failure) -> Outcome:
        """The outcome of a message that failed; one that expired while a broker throttled waits."""
        outcome = classify(failure.code, failure.text)
        offered_at = asyncio.get_running_loop().time() - self._options.write_timeout
        if isinstance(outcome, TimedOut) and session.throttled_until >= offered_at:
            return Away(f"{_THROTTLED}: {failure.text}", "destination kafka")
        return outcome

    @staticmethod
    async def _offer_in_turn(entries: list[tuple[KafkaSession, Entry]]) -> None:
        """Offer messages of one run, each once the one before is acknowledged; those behind a failure are withheld."""
        for index, (session, (event, sink)) in enumerate(entries):
            answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            await session.offer([event], lambda resolutions, answer=answer: answer.set_result(resolutions[0][1]))  # type: ignore[misc]
            outcome = await answer
            sink([(event, outcome)])
            if not isinstance(outcome, Acknowledged):
                behind = Withheld("an earlier event of its key has failed")
                resolve((entry, behind) for _, entry in entries[index + 1 :])
                return

    async def _offer_alone(self, session: KafkaSession, entries: list[Entry]) -> None:
        for event, sink in entries:
            await session.offer([event], sink)

    def _replace(self, session: KafkaSession, failure: Failure) -> None:
        """Retire a failed session. Its events are released, or fail an attempt where an operator must act first."""
        if session.ended_as is not None:
            return
        level = logging.INFO if failure.code == GAPLESS else logging.WARNING
        _log.log(level, "the Kafka client failed and is replaced: %s: %s", failure.code, failure.text)
        self._sessions = {use: one for use, one in self._sessions.items() if one is not session}
        if failure.code in FATAL_UNTIL_GRANTED:
            session.end(Transient(failure.code, failure.text))
        elif failure.code == GAPLESS:
            session.end(Withheld(failure.text))
        else:
            session.end(Unreachable(f"{failure.code}: {failure.text}"))
        self._start(session.gone())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _note_error(self, error: KafkaError) -> None:
        text = mask_values(f"{error.name()}: {plain_error(error.str())}", self._config)
        if error.name() in REFUSED_LOGIN or _TLS_ALERT in text:
            self._refusal = text
        elif error.name() != "_ALL_BROKERS_DOWN":  # a consequence of the other errors, which say more
            self._trouble = text

    def _reason(self, otherwise: str) -> str:
        return self._refusal or self._trouble or f"{self._config['bootstrap.servers']}: {otherwise}"
