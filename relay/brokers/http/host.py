"""One endpoint: its connections, the events that wait for one, and what is under way.

Events of one partition key are sent one after the other, each once the one before has its outcome, so they arrive in
order while nothing fails. All others share the connections, as many as ``relay.brokers.http.window`` says; what is
idle beyond that, or for long, is closed.

``_held`` alone says what has no outcome: the code that removes an entry resolves its event, so an event is resolved at
most once. When the host cannot be connected to, everything that waits for it is ``Unreachable`` at once: otherwise each
event would wait for a connection of its own. While others stand the host gives no further one, and no more: its event
goes back to the front. One that takes connections and gives no answers, several times in a row, is ``blocked``, and its
destination takes back what it was offered (``relay.engine.destination.member``).
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from dataclasses import replace
from typing import Final, cast

from relay.brokers.entries import Entry, resolve
from relay.brokers.http.connecting import ConnectingWay, check, connect
from relay.brokers.http.endpoints import Endpoint, read_endpoint
from relay.brokers.http.errors import Answer, BadAnswer, Cut, NoAnswer, outcome_of
from relay.brokers.http.options import HttpOptions, client_tls
from relay.brokers.http.request import request_of
from relay.brokers.http.session import HttpSession
from relay.brokers.http.window import RequestWindow
from relay.brokers.login import present
from relay.brokers.share import LoopShare
from relay.core.errors import BrokerUnreachable, ConfigError
from relay.core.event import OutboxEvent
from relay.core.outcome import ConnectionCut, Outcome, TimedOut, Transient, Unreachable, Withheld

_LONGEST_IDLE: Final = 30.0  # seconds after which a session is not used again: servers close idle ones
_BLOCKED_AFTER: Final = 5  # answers missing and connections cut, in a row
_SILENT: Final = 3  # further connections in a row without an answer: the server has no place for more
_TRIES: Final = 3  # connections for one request that the server has not looked at


class Host:
    """See the module's text."""

    def __init__(self, endpoint: Endpoint, options: HttpOptions) -> None:
        self.origin = endpoint.origin
        self._shown = str(endpoint.origin)
        self._endpoint = endpoint
        self._options = options
        self._loop = asyncio.get_running_loop()
        self.blocked = ""
        """Why it takes nothing: several requests in a row had no answer; empty again for the next one, as a trial."""
        self._unanswered = 0
        """How many there were in a row."""
        self._silent = 0
        """Connections in a row that have never answered, while none of those that had left a request unanswered."""
        self._share = LoopShare()
        self._window = RequestWindow(
            options.connections_per_host, time.monotonic
        )  # uvloop's time stands still for a turn
        self._held: dict[int, Entry] = {}
        self._ready: deque[Entry] = deque()
        self._key_queues: dict[str, deque[Entry]] = {}
        """What waits behind the event of a key that is under way or ready."""
        self._workers: set[asyncio.Task[None]] = set()
        self._sessions: list[HttpSession] = []
        self._idle: deque[HttpSession] = deque()
        """Of these what carries nothing, that which was used last at its end; also some that closed meanwhile."""
        self._newest: HttpSession
        self._answered: list[tuple[Entry, Outcome]] = []

    # What the publisher calls

    def add(self, entry: Entry) -> None:
        """Take an event; ``pump`` sends it."""
        if not self._held:
            self.blocked = ""
        self._held[id(entry)] = entry
        if (key := entry[0].partition_key) is None:
            self._ready.append(entry)
        elif key in self._key_queues:
            self._key_queues[key].append(entry)
        else:
            self._key_queues[key] = deque()
            self._ready.append(entry)

    def pump(self) -> None:
        """Begin as many requests as there may be at a time."""
        under_way = len(self._workers)
        for _ in range(self._window.places(len(self._ready) + under_way) - under_way):
            self._workers.add(self._loop.create_task(self._work()))

    async def check(self, timeout: float) -> None:
        """Connect, with the TLS handshake, and send nothing. Raises BrokerUnreachable."""
        await self._renew()
        await check(self.origin, self._context(), self._way(timeout))

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
        self._idle.clear()
        self._take_down(list(self._held.values()), Unreachable(reason))
        self._report()

    def take_back(self, reason: str) -> None:
        """What is not under way is ``Withheld(reason)``."""
        self._take_down(self._waiting(), Withheld(reason))
        self._report()

    # Sending

    async def _work(self) -> None:
        try:
            while self._ready and len(self._workers) <= self._window.size:
                if owed := self._share.owed():
                    await asyncio.sleep(owed)
                    continue
                entry = self._ready.popleft()
                try:
                    outcome = await self._send(entry)
                except Exception as error:  # noqa: BLE001 - whatever a library raises is about this request
                    outcome = Transient(type(error).__name__, f"{self.origin}: {error}")
                if outcome is None:
                    self._ready.appendleft(entry)
                else:
                    self._finish(entry, outcome)
        finally:
            # In the same turn in which nothing was ready: a later one would let pump count this worker, and start none.
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            self._close_idle()

    def _finish(self, entry: Entry, outcome: Outcome) -> None:
        if self._held.pop(id(entry), None) is not None:
            self._answer(entry, outcome)
        if (key := entry[0].partition_key) is not None and (waiting := self._key_queues.get(key)) is not None:
            if waiting:
                self._ready.append(waiting.popleft())
            else:
                del self._key_queues[key]

    async def _send(self, entry: Entry) -> Outcome | None:
        """The outcome; None where there is no further connection, and others stand."""
        cut = ""
        for attempt in range(_TRIES):
            try:
                session = (None if attempt else self._idle_session()) or await self._open()
            except BrokerUnreachable as error:
                if standing := self._standing():
                    self._window.fill(standing)
                    return None
                # What waits for a connection gets none either.
                self._take_down(self._waiting(), Unreachable(str(error)))
                return Unreachable(str(error))
            try:
                answer = await self._post(session, entry[0])
            except Cut as error:
                cut = str(error)
                if error.resend and attempt + 1 < _TRIES:
                    continue
                break
            except NoAnswer as error:  # a timeout alone decides nothing: who called publish probes
                self._note_silence(session)
                return TimedOut("NO_ANSWER", self._has_failed(str(error)))
            except BadAnswer as error:
                self._has_answered()
                return Transient("BAD_ANSWER", f"{self.origin}: {self._endpoint.masked(str(error))}")
            self._has_answered()
            return outcome_of(answer, self._shown, self._options.permanent_statuses, self._endpoint.masked)
        return ConnectionCut(self._has_failed(cut))

    async def _post(self, session: HttpSession, event: OutboxEvent) -> Answer:
        began, further = time.monotonic(), not session.proven
        try:
            request = request_of(event, self._endpoint, self._options)
            answer = await session.post(request, self._options.timeout)
        finally:
            self._share.take(session.spent)
            if session.idle:
                self._idle.append(session)
        if further:
            self._silent = 0
        newest = self._newest
        if self._window.answer(answer.status, began, waiting=bool(self._ready), proven=newest.proven or newest.closed):
            self.pump()
        return answer

    def _note_silence(self, session: HttpSession) -> None:
        """A server of few processes takes connections that wait for one of them as long as the others stand."""
        self._silent = 0 if session.proven else self._silent + 1
        if self._silent >= _SILENT and (standing := self._standing()):
            self._window.fill(standing, silent=True)

    def _standing(self) -> int:
        """Connections that have answered, and stand."""
        return sum(one.proven and not one.closed for one in self._sessions)

    def _has_answered(self) -> None:
        self._unanswered, self.blocked = 0, ""

    def _has_failed(self, reason: str) -> str:
        """Note that there was no answer, and return the reason with the host."""
        text = f"{self.origin}: {reason}"
        self._unanswered += 1
        if self._unanswered >= _BLOCKED_AFTER:
            self.blocked = text
        return text

    def _waiting(self) -> list[Entry]:
        """What is not under way."""
        return [*self._ready, *(entry for queue in self._key_queues.values() for entry in queue)]

    def _take_down(self, entries: list[Entry], outcome: Outcome) -> None:
        self._ready.clear()
        for entry in entries:
            if self._held.pop(id(entry), None) is not None:
                self._answer(entry, outcome)
        # Of a key whose first event is under way the rest is gone; its queue goes with that event.
        under_way = {entry[0].partition_key for entry in self._held.values()}
        self._key_queues = {key: deque() for key in self._key_queues if key in under_way}

    # Sessions

    def _idle_session(self) -> HttpSession | None:
        """The one that was used last; servers close those that are idle for long."""
        while self._idle:
            session = self._idle.pop()
            if not session.closed:
                if self._loop.time() - session.idle_since <= _LONGEST_IDLE:
                    return session
                session.abort()
        self._sessions = [one for one in self._sessions if not one.closed]
        return None

    def _close_idle(self) -> None:
        """What is more than may be used, or was not used for long. A worker's end is frequent: mostly it is neither."""
        idle, now = self._idle, self._loop.time()
        if len(self._sessions) > self._window.size:
            self._sessions = [one for one in self._sessions if not one.closed]
        excess = len(self._sessions) - self._window.size
        while idle and (idle[0].closed or excess > 0 or now - idle[0].idle_since > _LONGEST_IDLE):
            session = idle.popleft()
            if not session.closed:
                session.abort()
                excess -= 1

    async def _open(self) -> HttpSession:
        await self._renew()
        session = await connect(self.origin, self._context(), self._way(self._options.connection_timeout))
        self._sessions.append(session)
        self._newest = session
        return session

    def _way(self, timeout: float) -> ConnectingWay:
        return ConnectingWay(timeout, self._options.allow_private, self._endpoint.proxy)

    async def _renew(self) -> None:
        """Log in and sign as the files of URL and secrets say now; what cannot be used leaves the last ones in use."""
        options, live, proxy = await present(self._options), self._options.live_secrets, self._options.live_proxy
        if live is not None:
            options = replace(options, secrets=await live.present())
        if proxy is not None:
            options = replace(options, egress_proxy=await proxy.present())
        if options is self._options:
            return
        try:
            endpoint = read_endpoint(options)
        except ConfigError as error:
            changed = self._options.live if options.url != self._options.url else live
            if options.egress_proxy != self._options.egress_proxy:
                changed = proxy
            if changed is not None:
                changed.say(str(error))
            return
        if endpoint.origin == self.origin:
            self._endpoint = endpoint

    def _context(self) -> ssl.SSLContext | None:
        if self.origin.scheme != "https":
            return None
        try:
            return client_tls(self._options)
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
