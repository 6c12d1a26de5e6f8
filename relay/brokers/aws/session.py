"""A client in use and the requests in flight; used by the SQS and SNS publishers only.

Each request carries up to ten events and has its own answer, with an outcome for each of them. A connection that is cut
concerns one request: its events are ``ConnectionCut``, and the others go on. Requests to one FIFO queue or topic that
have a message group in common follow one another, so that a group is stored in the order in which it was offered.

Each queue and topic has a line of its own: what waits for it, and its requests in flight, of which there are
``max_requests`` at most. So one that hangs holds up no other. How much may wait is bounded by what the engine has in
flight.

A session ends when it is abandoned, and when its credentials are refused: the next one reads them again. ``end`` resets
the connections, since an orderly close would first send what is still buffered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from relay.brokers.aws.batching import RequestBatch, batches
from relay.brokers.aws.client import AwsClient
from relay.brokers.aws.errors import about_one, classify, code_of, is_missing, refusal, refuses_credentials
from relay.brokers.aws.names import destination_name
from relay.brokers.aws.options import AwsOptions
from relay.brokers.aws.services import Service
from relay.brokers.aws.sockets import Progress
from relay.core.durations import in_words
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Acknowledged, Outcome, OutcomeSink, Receipt, Transient, Withheld

FAILURES: Final = (ClientError, BotoCoreError, ResponseParserError, BrokerUnreachable, OSError)
"""What a request to AWS may raise."""

_LOOKS: Final = 2  # at what was sent, within a timeout
_MOST_TIMEOUTS: Final = 10  # of one request, while its bytes are on their way
_LATE: Final = 0.2  # seconds that a look may be late because the process did not run


class _Offer(NamedTuple):
    """Events of one ``offer`` for one queue or topic."""

    events: Iterator[OutboxEvent]
    """Those that are in no batch yet; ``batches`` takes them from here."""
    sink: OutcomeSink
    batches: Iterator[RequestBatch]


class _Line:
    """What waits for one queue or topic, and its requests in flight."""

    def __init__(self) -> None:
        self.waiting: deque[_Offer] = deque()
        self.requests: dict[asyncio.Task[None], RequestBatch] = {}


class AwsSession:
    """One client and what is unanswered on it."""

    def __init__(self, client: AwsClient, service: Service, options: AwsOptions) -> None:
        """``client`` belongs to the session from here on."""
        self.ended_as: Outcome | None = None
        """None until ``end``; then the outcome of every event that was still unanswered."""
        self._client, self._service, self._options = client, service, options
        self._loop = asyncio.get_running_loop()
        self._lines: dict[str, _Line] = {}
        self._last_of: dict[tuple[str, str], asyncio.Task[None]] = {}
        """The latest request of each message group of a FIFO queue or topic."""
        self._addresses: dict[str, asyncio.Task[str]] = {}
        """Of each queue or topic by name, also while it is being looked up."""
        self._closing: asyncio.Task[None] | None = None

    async def offer(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> Sequence[OutboxEvent]:
        """Put every event into the line of its queue or topic. Leaves none unsent."""
        groups: dict[str, list[OutboxEvent]] = {}
        for event in events:
            groups.setdefault(destination_name(event.event_type, self._options), []).append(event)
        lines = []
        for name, group in groups.items():
            lines.append(self._lines.setdefault(name, _Line()))
            left = iter(group)
            lines[-1].waiting.append(_Offer(left, sink, batches(left, sink, self._service, self._options)))
        if self.ended_as is not None:
            self._give_back(self.ended_as)
        for line in lines:
            for _ in range(self._options.max_requests):
                if not self._begin(line):
                    break
                await asyncio.sleep(0)
        return ()

    def take_back(self, reason: str) -> None:
        """What is in no request yet is ``Withheld(reason)``."""
        self._give_back(Withheld(reason))

    def end(self, outcome: Outcome) -> None:
        """Cut every connection; on return everything is resolved, what was unanswered as ``outcome``."""
        if self.ended_as is not None:
            return
        self.ended_as = outcome
        self._client.sockets.cut()
        self._give_back(outcome)
        lines, self._lines = self._lines, {}
        requests = {task: batch for line in lines.values() for task, batch in line.requests.items()}
        tasks: list[asyncio.Task[Any]] = [*requests, *self._addresses.values()]
        for task in tasks:
            if task is not asyncio.current_task():
                task.cancel()
        for batch in requests.values():
            batch.settle_all(outcome)
        self._closing = self._loop.create_task(self._close(tasks))

    async def gone(self) -> None:
        """Wait until nothing of an ended session is left."""
        if self._closing is not None:
            await asyncio.wait({self._closing})

    async def _close(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        if tasks:
            await asyncio.wait(tasks)
        await self._client.close()

    def _give_back(self, outcome: Outcome) -> None:
        for line in self._lines.values():
            waiting, line.waiting = line.waiting, deque()
            for events, sink, made in waiting:
                if left := [(event, outcome) for event in events]:
                    sink(left)
                for batch in made:  # those that were not full yet
                    batch.settle_all(outcome)

    def _begin(self, line: _Line) -> bool:
        """Send the next batch of a line, unless nothing waits or as many as may be are in flight; whether one was."""
        while line.waiting and len(line.requests) < self._options.max_requests:
            if (batch := next(line.waiting[0].batches, None)) is not None:
                self._start(line, batch)
                return True
            line.waiting.popleft()
        return False

    def _start(self, line: _Line, batch: RequestBatch) -> None:
        """Begin to send a batch, after the requests that share a group with it."""
        groups = [(batch.name, group) for group in batch.groups]
        before = {self._last_of[group] for group in groups if group in self._last_of}
        task = self._loop.create_task(self._deliver(batch, before))
        line.requests[task] = batch
        self._last_of.update(dict.fromkeys(groups, task))

        def done(_: asyncio.Task[None]) -> None:
            line.requests.pop(task, None)
            for group in groups:
                if self._last_of.get(group) is task:
                    del self._last_of[group]
            self._begin(line)
            if not (line.requests or line.waiting):
                self._lines.pop(batch.name, None)

        task.add_done_callback(done)

    async def _deliver(self, batch: RequestBatch, before: set[asyncio.Task[None]]) -> None:
        """Send one batch; where a refusal of the whole may be for one of its messages, each alone."""
        if before:
            await asyncio.wait(before)
        await self._send(batch, batch.waiting)
        for key in batch.waiting:
            await self._send(batch, [key])

    async def _send(self, batch: RequestBatch, keys: Sequence[str]) -> None:
        """Send these messages of a batch and settle them."""
        try:
            address = await self._address(batch.name)
            requests = [request for request in batch.requests if request["Id"] in keys]
            answer = await self._within(self._service.send(self._client, address, requests))
            outcomes = self._outcomes(answer)
        except Exception as error:  # noqa: BLE001 - what is not settled here would never be
            self._failed(batch, keys, error)
            return
        silent = Transient("NO_RESULT", "the answer says nothing about this message")
        batch.settle([(key, outcomes.get(key, silent)) for key in keys])

    def _failed(self, batch: RequestBatch, keys: Sequence[str], error: Exception) -> None:
        """Settle a request that failed as a whole, unless each of its messages must be sent alone."""
        if is_missing(error):
            self._addresses.pop(batch.name, None)  # looked up again by the next attempt
        outcome = classify(error)
        if len(keys) == 1 or not about_one(error, outcome):
            batch.settle([(key, outcome) for key in keys])
        if refuses_credentials(error):
            self.end(outcome)

    def _outcomes(self, answer: dict[str, Any]) -> dict[str, Outcome]:
        """What an answer says about each message, by the id of its entry."""
        outcomes: dict[str, Outcome] = {}
        for entry in answer.get("Successful", ()):
            outcomes[entry["Id"]] = Acknowledged(_receipt(entry)) if self._options.receipts else ACKNOWLEDGED
        for entry in answer.get("Failed", ()):
            outcomes[entry["Id"]] = refusal(code_of(entry), str(entry.get("Message", "")))
        return outcomes

    async def _address(self, name: str) -> str:
        """Where a queue or topic is; requests for it that begin meanwhile share one lookup."""
        lookup = self._addresses.get(name)
        if lookup is None:
            lookup = self._loop.create_task(self._within(self._service.address(self._client, name)))
            self._addresses[name] = lookup
        await asyncio.wait({lookup})
        if self._addresses.get(name) is lookup and (lookup.cancelled() or lookup.exception() is not None):
            del self._addresses[name]
        return lookup.result()

    async def _within(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - the SDK's answers have no types
        """What a request returns. Raises TimeoutError when it has no answer in time, and no bytes are on their way."""
        request = self._loop.create_task(work)
        try:
            if await self._in_time(request):
                return request.result()
        finally:
            if not request.done():
                request.cancel()
                await asyncio.wait({request})
        raise TimeoutError(f"no answer within {in_words(self._options.publish_timeout)}")

    async def _in_time(self, request: asyncio.Task[Any]) -> bool:
        """Whether a request ends before its timeout, which begins again while bytes arrive at the other host.

        Time in which this process did not run does not count: what has arrived meanwhile is read first.
        """
        interval, silent = self._options.publish_timeout / _LOOKS, 0
        before: Progress | None = None
        for _ in range(_LOOKS * _MOST_TIMEOUTS):
            due = self._loop.time() + interval
            await asyncio.wait({request}, timeout=interval)
            if request.done():
                return True
            now = self._client.sockets.progress()
            moved = before is not None and now.waiting > 0 and now.received > before.received
            silent = 0 if moved or self._loop.time() - due > _LATE else silent + 1
            if silent == _LOOKS:
                break
            before = now
        return False


def _receipt(entry: dict[str, Any]) -> Receipt:
    """Where the message is: its id and, in a FIFO queue or topic, its number."""
    receipt: Receipt = {"message_id": entry["MessageId"]}
    if "SequenceNumber" in entry:
        receipt["sequence_number"] = entry["SequenceNumber"]
    return receipt
