"""One host: its connections, the events that wait for one, and what is under way. Used by the publisher of webhooks.

Events of one partition key to one endpoint are sent one after the other, each once the one before has its outcome, so
they arrive in order while nothing fails. All others share the connections, ``connections_per_host`` at most.

``_held`` alone says what has no outcome: the code that removes an entry resolves its event, so an event is resolved at
most once. When the host cannot be connected to, everything that waits for it is taken down at once: otherwise each
event would wait for a connection of its own.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from relay.brokers.entries import Entry, resolve
from relay.brokers.http.circuit import Circuit
from relay.brokers.http.connecting import check, connect
from relay.brokers.http.endpoints import Endpoint
from relay.brokers.http.errors import BadAnswer, Cut, NoAnswer, outcome_of
from relay.brokers.http.options import ClientTls, HttpOptions
from relay.brokers.http.origin import Origin
from relay.brokers.http.request import request_of
from relay.brokers.http.session import HttpSession
from relay.core.errors import BrokerUnreachable, ConfigError
from relay.core.outcome import Away, ConnectionCut, Outcome, TimedOut, Transient, Unreachable

_LONGEST_IDLE: Final = 30.0  # seconds after which a session is not used again: servers close idle ones
_TRIES: Final = 3  # connections for one request that the server has not looked at


class Job(NamedTuple):
    """An event on its way to an endpoint of this host."""

    entry: Entry
    endpoint: Endpoint

    @property
    def ordered_key(self) -> tuple[int, str] | None:
        """What it must not overtake; None for an event without a key."""
        key = self.entry[0].partition_key
        return None if key is None else (id(self.endpoint), key)


class Host:
    """See the module's text. ``sole`` is the publisher's only host: its being away is the broker's."""

    def __init__(self, origin: Origin, options: HttpOptions, tls: ClientTls, *, sole: bool) -> None:
        self.origin = origin
        self._options = options
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._away: Callable[[str], Outcome] = Unreachable if sole else Away
        self._circuit = None if sole else Circuit(options.circuit_pause, self._loop.time)
        self._held: dict[int, Job] = {}
        self._ready: deque[Job] = deque()
        self._key_queues: dict[tuple[int, str], deque[Job]] = {}
        """What waits behind the event of a key that is under way or ready."""
        self._workers: set[asyncio.Task[None]] = set()
        self._sessions: list[HttpSession] = []
        self._answered: list[tuple[Entry, Outcome]] = []

    # What the publisher calls

    def add(self, entry: Entry, endpoint: Endpoint) -> None:
        """Take an event; ``pump`` sends it."""
        job = Job(entry, endpoint)
        if self._circuit is not None and self._circuit.open:
            self._answer(entry, Away(self._circuit.reason))
            return
        self._held[id(job)] = job
        if (key := job.ordered_key) is None:
            self._ready.append(job)
        elif key in self._key_queues:
            self._key_queues[key].append(job)
        else:
            self._key_queues[key] = deque()
            self._ready.append(job)

    def pump(self) -> None:
        """Begin as many requests as there may be at a time."""
        for _ in range(min(len(self._ready), self._most() - len(self._workers))):
            self._workers.add(self._loop.create_task(self._work()))

    def _most(self) -> int:
        """How many requests there may be at a time: one while the circuit is half-open."""
        if self._circuit is not None and self._circuit.half_open:
            return 1
        return self._options.connections_per_host

    async def check(self, timeout: float) -> None:
        """Connect, with the TLS handshake, and send nothing. Raises BrokerUnreachable."""
        await check(self.origin, self._context(), timeout, allow_private=self._options.allow_private)

    async def abandon(self, reason: str) -> None:
        """Cut every connection; on return everything is resolved, what had no outcome as ``Unreachable(reason)``."""
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers)
        for session in self._sessions:
            session.abort()
        self._sessions.clear()
        self._take_down(list(self._held.values()), Unreachable(reason))
        self._report()

    # Sending

    async def _work(self) -> None:
        try:
            while self._ready and len(self._workers) <= self._most():
                job = self._ready.popleft()
                try:
                    outcome = await self._send(job)
                except Exception as error:  # noqa: BLE001 - whatever a library raises is about this request
                    outcome = Transient(type(error).__name__, f"{self.origin}: {error}")
                self._finish(job, outcome)
        finally:
            # In the same turn in which nothing was ready: a later one would let pump count this worker, and start none.
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _finish(self, job: Job, outcome: Outcome) -> None:
        if self._held.pop(id(job), None) is not None:
            self._answer(job.entry, outcome)
        if (key := job.ordered_key) is not None and (waiting := self._key_queues.get(key)) is not None:
            if waiting:
                self._ready.append(waiting.popleft())
            else:
                del self._key_queues[key]

    async def _send(self, job: Job) -> Outcome:
        cut = ""
        for attempt in range(_TRIES):
            try:
                session = (None if attempt else self._idle_session()) or await self._open()
            except BrokerUnreachable as error:
                return self._is_away(str(error))
            try:
                request = request_of(job.entry[0], job.endpoint, self._options)
                answer = await session.post(request, job.endpoint.timeout)
            except Cut as error:
                cut = str(error)
                if error.resend and attempt + 1 < _TRIES:
                    continue
                break
            except NoAnswer as error:
                return await self._no_answer(str(error))
            except BadAnswer as error:
                self._has_answered()
                return Transient("BAD_ANSWER", f"{self.origin}: {error}")
            self._has_answered()
            return outcome_of(answer, str(self.origin))
        return await self._was_cut(cut)

    def _has_answered(self) -> None:
        if self._circuit is not None:
            self._circuit.worked()
            self.pump()

    def _has_failed(self, reason: str) -> None:
        """Note a failure of one of several hosts; when that opens the circuit, what waits is away."""
        if self._circuit is not None:
            self._circuit.failed(reason)
            if self._circuit.open:
                self._take_down(self._waiting(), Away(reason))

    async def _no_answer(self, reason: str) -> Outcome:
        """A timeout alone decides nothing. The engine asks the only host, and this method asks one of several."""
        text = f"{self.origin}: {reason}"
        if self._circuit is None:
            return TimedOut("NO_ANSWER", text)
        if (refusal := await self._refusal()) is not None:
            return self._is_away(refusal)
        self._has_failed(text)
        return Transient("NO_ANSWER", text)

    async def _was_cut(self, reason: str) -> Outcome:
        text = f"{self.origin}: {reason}"
        if self._circuit is not None:
            if (refusal := await self._refusal()) is not None:
                return self._is_away(refusal)
            self._has_failed(text)
        return ConnectionCut(text)

    async def _refusal(self) -> str | None:
        """Why the host does not take a connection; None when it does."""
        try:
            await self.check(self._options.connection_timeout)
        except BrokerUnreachable as error:
            return str(error)
        return None

    def _is_away(self, reason: str) -> Outcome:
        """No connection: what waits for one is away too."""
        self._has_failed(reason)
        outcome = self._away(reason)
        self._take_down(self._waiting(), outcome)
        return outcome

    def _waiting(self) -> list[Job]:
        """What is not under way."""
        return [*self._ready, *(job for queue in self._key_queues.values() for job in queue)]

    def _take_down(self, jobs: list[Job], outcome: Outcome) -> None:
        self._ready.clear()
        for job in jobs:
            if self._held.pop(id(job), None) is not None:
                self._answer(job.entry, outcome)
        # Of a key whose first event is under way the rest is gone; its queue goes with that event.
        under_way = {job.ordered_key for job in self._held.values()}
        self._key_queues = {key: deque() for key in self._key_queues if key in under_way}

    # Sessions

    def _idle_session(self) -> HttpSession | None:
        """The one that was used last; servers close those that are idle for long."""
        for session in reversed(self._sessions):
            if session.idle:
                if self._loop.time() - session.idle_since <= _LONGEST_IDLE:
                    return session
                session.abort()
        self._sessions = [one for one in self._sessions if not one.closed]
        return None

    async def _open(self) -> HttpSession:
        options = self._options
        session = await connect(
            self.origin, self._context(), options.connection_timeout, allow_private=options.allow_private
        )
        self._sessions.append(session)
        return session

    def _context(self) -> ssl.SSLContext | None:
        if self.origin.scheme != "https":
            return None
        try:
            return self._tls.context()
        except ConfigError as error:
            raise BrokerUnreachable(str(error)) from None

    # Outcomes

    def _answer(self, entry: Entry, outcome: Outcome) -> None:
        """Note an outcome; the sinks get all outcomes of one event-loop turn together."""
        if not self._answered:
            self._loop.call_soon(self._report)
        self._answered.append((entry, outcome))

    def _report(self) -> None:
        answered, self._answered = self._answered, []
        resolve(answered)
