"""Events as MQTT 5 messages at QoS 1: the topic is the event's type, headers are user properties.

The promises are those of ``relay.core.ports.Publisher``. A PUBACK is the acknowledgement. A broker
without a subscriber acknowledges and keeps nothing: that is MQTT.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from openoutbox_mqtt.session import Address, Session
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.headers import wire_headers
from relay.core.outcome import (
    ACKNOWLEDGED,
    ConnectionCut,
    Outcome,
    OutcomeSink,
    Permanent,
    TimedOut,
    Transient,
    Unreachable,
)
from relay.core.ports import SingleDestination

_OURS = ("x-event-id", "x-partition-key")
_LONGEST = 65_535  # bytes of a string in MQTT
_NEVER = {0x90: "INVALID_TOPIC", 0x95: "TOO_LARGE", 0x99: "INVALID_PAYLOAD"}  # PUBACKs that no retry changes


class MqttPublisher(SingleDestination):
    """One connection, made again when it was lost. Everything runs in the event loop's thread."""

    name = "mqtt"
    keeps_runs = False

    def __init__(self, address: Address, timeout: float) -> None:
        """``timeout``: seconds for a connection, and for the answer to a message."""
        self._address, self._timeout = address, timeout
        self._session: Session | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._open: dict[int, tuple[OutboxEvent, OutcomeSink]] = {}
        """Offered and not resolved, by the event's identity."""
        self._numbers: dict[int, int] = {}
        """The same that were handed over, by the number of the message."""

    async def open(self) -> None:
        """Nothing to do: the first event connects."""

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        self._open.update((id(event), (event, sink)) for event in events)
        async with self._turn:
            try:
                session = await self._connect() if events else None
            except BrokerUnreachable as error:
                self._resolve(map(id, events), Unreachable(str(error)))
                return
            for count, event in enumerate(events):
                if session is not None and id(event) in self._open:  # else abandoned meanwhile
                    self._hand_over(session, event)
                if count % 100 == 99:
                    await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(
            self._timeout, self._resolve, [id(event) for event in events], TimedOut("TIMEOUT", "no PUBACK in time")
        )

    def _hand_over(self, session: Session, event: OutboxEvent) -> None:
        if not event.event_type or event.event_type.startswith("$"):
            self._resolve([id(event)], Permanent("INVALID_TOPIC", "an empty name, or one that begins with $"))
            return
        try:
            self._numbers[session.publish(event.event_type, event.payload, _properties(event))] = id(event)
        except ValueError as error:  # a wildcard, an empty name, a payload over 256 MiB
            self._resolve([id(event)], Permanent("INVALID_TOPIC", str(error)))

    async def _connect(self) -> Session | None:
        """The session in use; None where ``abandon`` ended the attempt."""
        if self._session is not None and self._session.alive:
            return self._session
        self._session = session = Session(self._address, self._answered, self._ended)
        self._connecting = connecting = asyncio.ensure_future(session.connect(self._timeout))
        await asyncio.wait({connecting})
        if connecting.cancelled():
            return None
        connecting.result()
        return session

    def _answered(self, number: int, reason: ReasonCode) -> None:
        key = self._numbers.pop(number, None)
        if key is not None:
            self._resolve([key], _outcome(reason))

    def _ended(self, reason: str) -> None:
        cut, self._numbers = list(self._numbers.values()), {}
        self._resolve(cut, ConnectionCut(f"{self._address}: {reason}"))

    def _resolve(self, keys: Iterable[int], outcome: Outcome) -> None:
        for key in list(keys):
            event, sink = self._open.pop(key, (None, None))
            if event is not None and sink is not None:
                sink([(event, outcome)])

    async def probe(self, timeout: float) -> None:
        """Log in over a connection of its own."""
        session = Session(self._address, lambda *_: None, lambda _: None)
        await session.connect(timeout)
        await session.drop()

    async def abandon(self, reason: str) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._session is not None:
            await self._session.drop()
        self._numbers.clear()
        self._resolve(self._open, Unreachable(reason))

    async def close(self) -> None:
        await self.abandon("the publisher was closed")

    def twin(self) -> MqttPublisher:
        return MqttPublisher(self._address, self._timeout)


def _outcome(reason: ReasonCode) -> Outcome:
    if not reason.is_failure:
        return ACKNOWLEDGED
    if reason.value in _NEVER:
        return Permanent(_NEVER[reason.value], str(reason))
    return Transient(str(reason).upper().replace(" ", "_"), f"PUBACK {reason}")


def _properties(event: OutboxEvent) -> Properties:
    own = [("X-Event-ID", event.event_id)]
    if event.partition_key is not None:
        own.append(("X-Partition-Key", event.partition_key))
    others = [
        (f"X-User-{name}" if name.lower() in _OURS else name, value) for name, value in wire_headers(event.headers)
    ]
    properties = Properties(PacketTypes.PUBLISH)
    carried = [(carry(name), carry(value)) for name, value in (*own, *others)]
    properties.UserProperty = [pair for pair in carried if all(len(text.encode()) <= _LONGEST for text in pair)]
    return properties


def carry(text: str) -> str:
    """The text, with control characters (which brokers refuse) percent-encoded; then the percent sign is, too."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() and char != "%" else quote(char, safe="") for char in text)
