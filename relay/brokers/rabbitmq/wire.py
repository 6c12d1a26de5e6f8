"""A connection to RabbitMQ: login, one channel with confirms, heartbeats, and what the server says.

pamqp writes and reads the frames, but for two that come once a message: the frames of a message
(``relay.brokers.rabbitmq.frames``) and the server's confirms, which are taken from the received bytes.

A connection is lost once, and says so once. A channel that the server closes, as it does on an error of a message, is
gone with everything unconfirmed on it; ``open_channel`` opens a new one, whose delivery tags begin at 1 again.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any, Final, Protocol, TypeVar, cast

from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.common import FieldTable

from relay.brokers.rabbitmq.frames import BODY, CHANNEL, END, FRAME_START, HEADER, HEARTBEAT, METHOD, OVERHEAD
from relay.brokers.rabbitmq.options import RabbitTarget
from relay.brokers.sending import SendProgress
from relay.brokers.server_address import ServerAddress
from relay.brokers.share import LONGEST_TURN, LoopShare
from relay.brokers.tls import handshake_refused
from relay.core.durations import in_words
from relay.core.errors import BrokerRefused, BrokerUnreachable, OutboxError, reason_of
from relay.version import __version__

HEARTBEAT_INTERVAL: Final = 20
"""Seconds, the longest; two of them without a byte from the server mean that it is gone."""
_LATE: Final = 0.5  # seconds that a look may be late because this process did not run
_GREETING: Final = b"AMQP\x00\x00\x09\x01"
_BEAT: Final = FRAME_START.pack(HEARTBEAT, 0, 0) + bytes([END])
_CONFIRM: Final = struct.Struct(">HHQB")  # class, method, delivery tag, multiple
_CONFIRM_BYTES: Final = 13
_BASIC_ACK: Final = (60, 80)
_KINDS: Final = (METHOD, HEADER, BODY, HEARTBEAT)
_SMALLEST_FRAME: Final = 4096  # bytes; what AMQP demands of both sides
_ACCESS_REFUSED: Final = 403
_NOT_ALLOWED: Final = 530
_LARGEST_FRAME: Final = 1 << 17
_LARGEST_METHOD: Final = 1 << 14
"""Bytes of what a server says of itself, at most: pamqp takes time that grows with the square of a table."""
_LOOK: Final = 16  # frames between two looks at the clock
_FLAGS_AT: Final = 19  # byte of a frame at which a content header says which properties follow
_CAPABILITIES: Final[FieldTable] = {
    "publisher_confirms": True,
    "basic.nack": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}

Answer = TypeVar("Answer", bound=Frame)


class Owner(Protocol):
    """Takes what the server says after the channel is open."""

    def on_confirmed(self, tag: int, *, multiple: bool, stored: bool) -> None:
        """A confirm of one message, or of all up to it."""

    def on_returned(self, message_id: str, reason: str) -> None:
        """No queue takes this message; its confirm follows."""

    def on_blocked(self, reason: str | None) -> None:
        """The server takes no messages for now, or again: None."""

    def on_channel_closed(self, code: int, text: str) -> None:
        """The channel is gone, with what was unconfirmed on it."""

    def on_lost(self, reason: str) -> None:
        """The connection is gone."""


class ServerClosed(OutboxError):
    """The server ended the connection or the channel instead of answering a request."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class TooManyConnections(BrokerUnreachable):
    """A node has taken the login, and lets no more connections be opened by this user, or to this vhost."""


class AmqpWire(asyncio.Protocol):
    """One connection; ``connect`` makes one."""

    def __init__(self) -> None:
        self.owner: Owner | None = None
        """None for a connection that publishes nothing."""
        self.frame_max = _LARGEST_FRAME
        """Bytes of one frame, at most."""
        self.sending = SendProgress(None)
        self.lost: str | None = None
        """Why the connection is gone; None while it stands."""
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._share = LoopShare()
        self._paused = False
        """Whether it reads nothing for now, so that others have their turns."""
        self._loop = asyncio.get_running_loop()
        self._awaited: tuple[type[Frame], asyncio.Future[Any]] | None = None
        self._returned: commands.Basic.Return | None = None
        """Its content is on the way."""
        self._beat: asyncio.TimerHandle | None = None
        self._interval = 0.0
        self._heard = self._beat_due = 0.0

    @classmethod
    async def connect(cls, target: RabbitTarget, timeout: float) -> AmqpWire:
        """Log in to the first node that lets it. Raises BrokerUnreachable with each node's reason."""
        reasons: list[str] = []
        kind: type[BrokerUnreachable] = BrokerUnreachable
        for address in target.addresses:
            connection = cls()
            seconds = timeout / len(target.addresses)
            try:
                async with asyncio.timeout(seconds):
                    await connection._open(address, target)
            except TimeoutError:
                reasons.append(f"{address}: no RabbitMQ node has answered within {in_words(seconds)}")
            except (OSError, ServerClosed, UnicodeError) as error:  # the last: a host that is no name
                reasons.append(f"{address}: {reason_of(error)}")
                kind = _kind_of(error) or kind
            else:
                return connection
            finally:
                if connection._interval == 0.0:  # not open: nothing is left behind, when cancelled too
                    connection.cut()
        raise kind("; ".join(reasons))

    async def open_channel(self) -> None:
        """Open the channel, with confirms. Raises ServerClosed."""
        await self.ask(commands.Channel.Open(), commands.Channel.OpenOk, CHANNEL)
        await self.ask(commands.Confirm.Select(), commands.Confirm.SelectOk, CHANNEL)

    async def ask(self, request: Frame | None, answer: type[Answer], channel: int) -> Answer:
        """Send a request and wait for its answer, one request at a time. Raises ServerClosed."""
        if self.lost is not None:
            raise ServerClosed(0, self.lost)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._awaited = (answer, future)
        try:
            if request is not None:
                self._send(request, channel)
            received: Answer = await future
            return received
        finally:
            self._awaited = None

    def write(self, frames: bytes) -> None:
        """Write whole frames to the socket now; one that is closed already loses the connection."""
        if self._transport is None or self._transport.is_closing():
            self._lose("the connection was lost")
            return
        self.sending.written += len(frames)
        self._transport.write(frames)

    @property
    def unsent(self) -> int:
        """Bytes that wait for the socket to take them."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def cut(self) -> None:
        """Abort the connection, and drop what is buffered for it; the owner is not told."""
        self.owner = None
        self._lose("the connection was closed")

    async def close(self) -> None:
        """Say goodbye, so that the server logs no lost connection, and cut. Raises nothing of the connection."""
        try:
            await self.ask(commands.Connection.Close(200, "done", 0, 0), commands.Connection.CloseOk, 0)
        except ServerClosed:
            return
        finally:
            self.cut()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self.sending = SendProgress(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._lose("the connection was lost" + (f": {reason_of(exc)}" if exc else ""))

    def data_received(self, data: bytes) -> None:
        """Take every frame that is complete."""
        self._heard = self._loop.time()
        self._received = self._received + data if self._received else data
        if not self._paused:
            self._take_frames()

    def _take_frames(self) -> None:
        """Take every frame that is complete; what takes long goes on when others had their turns."""
        began = time.perf_counter()
        data, self._received = self._received, b""
        at, end, taken = 0, len(data), 0
        while end - at >= OVERHEAD and self.lost is None:
            taken += 1
            if not taken % _LOOK and time.perf_counter() - began > LONGEST_TURN:
                break
            kind, _, size = FRAME_START.unpack_from(data, at)
            if kind not in _KINDS or size > (_LARGEST_METHOD if kind == METHOD else _LARGEST_FRAME):
                self._lose("the server that answers is not a RabbitMQ server")
                return
            after = at + size + OVERHEAD
            if after > end:
                break
            if kind == METHOD and size == _CONFIRM_BYTES:
                self._take_confirm(data, at)
            elif kind != HEARTBEAT:
                self._take(data[at:after], kind)
            at = after
        self._received = data[at:]
        if (pause := self._share.take(time.perf_counter() - began)) and self.lost is None:
            self._pause(pause)

    def _pause(self, seconds: float) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._paused = False
        if self.lost is None and self._transport is not None:
            self._transport.resume_reading()
            self._take_frames()

    def _take_confirm(self, data: bytes, at: int) -> None:
        """A method of that size: nearly always a confirm."""
        class_id, method_id, tag, multiple = _CONFIRM.unpack_from(data, at + FRAME_START.size)
        if (class_id, method_id) == _BASIC_ACK and self.owner is not None:
            self.owner.on_confirmed(tag, multiple=bool(multiple & 1), stored=True)
        else:
            self._take(data[at : at + _CONFIRM_BYTES + OVERHEAD], METHOD)

    def _take(self, data: bytes, kind: int) -> None:
        if kind == BODY:  # of a message that was returned
            return
        received: object = None
        try:
            if kind == HEADER:
                self._take_returned(message_id(data))
            else:
                _, _, received = frame.unmarshal(data)
        except Exception as error:  # noqa: BLE001 - what a server sends may make a decoder raise anything
            self._lose(f"a frame of the server cannot be read: {reason_of(error)}")
            return
        if self._awaited is not None and isinstance(received, self._awaited[0]):
            if not self._awaited[1].done():
                self._awaited[1].set_result(received)
        else:
            self._take_unasked(received)

    def _take_unasked(self, received: object) -> None:
        match received:
            case commands.Basic.Return():
                self._returned = received
            case commands.Basic.Nack() if self.owner is not None:
                self.owner.on_confirmed(received.delivery_tag or 0, multiple=bool(received.multiple), stored=False)
            case commands.Connection.Blocked() if self.owner is not None:
                self.owner.on_blocked(received.reason or "no reason given")
            case commands.Connection.Unblocked() if self.owner is not None:
                self.owner.on_blocked(None)
            case commands.Channel.Close():
                self._on_channel_close(received)
            case commands.Connection.Close():
                self._on_close(received)

    def _take_returned(self, message_id: str) -> None:
        returned, self._returned = self._returned, None
        if returned is not None and self.owner is not None:
            reason = f"{returned.reply_text} (exchange {returned.exchange!r}, routing key {returned.routing_key!r})"
            self.owner.on_returned(message_id, reason)

    def _on_channel_close(self, received: commands.Channel.Close) -> None:
        self._send(commands.Channel.CloseOk(), CHANNEL)
        code, text = received.reply_code or 0, received.reply_text or ""
        if not self._fail_awaited(ServerClosed(code, text)) and self.owner is not None:
            self.owner.on_channel_closed(code, text)

    def _on_close(self, received: commands.Connection.Close) -> None:
        self._send(commands.Connection.CloseOk(), 0)
        self._lose(f"the server closed the connection: {received.reply_text}", received.reply_code or 0)

    # the connection's life

    async def _open(self, address: ServerAddress, target: RabbitTarget) -> None:
        host = address.host if target.tls else None
        await self._loop.create_connection(
            lambda: self, address.host, address.port, ssl=target.tls, server_hostname=host
        )
        self.write(_GREETING)
        start = await self.ask(None, commands.Connection.Start, 0)
        if "PLAIN" not in str(start.mechanisms).split():
            raise ServerClosed(0, f"the server takes no login by password, but {start.mechanisms}")
        login = commands.Connection.StartOk(
            client_properties={"product": "openoutbox-relay", "version": __version__, "capabilities": _CAPABILITIES},
            mechanism="PLAIN",
            response=f"\0{target.user}\0{target.password}",
            locale="en_US",
        )
        tune = await self.ask(login, commands.Connection.Tune, 0)
        self.frame_max = max(_SMALLEST_FRAME, min(tune.frame_max or _LARGEST_FRAME, _LARGEST_FRAME))
        heartbeat = min(tune.heartbeat or HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL)
        self._send(commands.Connection.TuneOk(min(tune.channel_max or 1, 1) or 1, self.frame_max, heartbeat), 0)
        await self.ask(commands.Connection.Open(target.vhost), commands.Connection.OpenOk, 0)
        self._interval = heartbeat / 2
        self._beat_at(self._loop.time() + self._interval)

    def _beat_at(self, due: float) -> None:
        self._beat_due = due
        self._beat = self._loop.call_at(due, self._keep_alive)

    def _keep_alive(self) -> None:
        """Send a heartbeat and look for the server's; a process that was stopped reads first what has arrived."""
        now = self._loop.time()
        silence = now - self._heard
        if now - self._beat_due < _LATE and silence > 4 * self._interval:
            self._lose(f"no heartbeat of the server within {silence:.0f} s")
            return
        self.write(_BEAT)
        self._beat_at(now + self._interval)

    def _send(self, request: Frame, channel: int) -> None:
        if self.lost is None:
            self.write(frame.marshal(request, channel))

    def _fail_awaited(self, error: ServerClosed) -> bool:
        """Tell the request that is under way; whether there is one."""
        if self._awaited is None or self._awaited[1].done():
            return False
        self._awaited[1].set_exception(error)
        return True

    def _lose(self, reason: str, code: int = 0) -> None:
        if self.lost is not None:
            return
        self.lost = reason
        if self._beat is not None:
            self._beat.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._fail_awaited(ServerClosed(code, reason))
        if self.owner is not None:
            self.owner.on_lost(reason)


def message_id(data: bytes) -> str:
    """The message id in a content header's frame; empty without one. Raises IndexError, ValueError and struct.error.

    The properties before it are passed over unread: the table of headers may be as large as a frame.
    """
    (flags,) = struct.unpack_from(">H", data, _FLAGS_AT)
    at = _FLAGS_AT + 2
    for bit in range(15, 7, -1):
        if not flags >> bit & 1:
            continue
        if bit == 13:  # the table of headers
            at += 4 + int.from_bytes(data[at : at + 4], "big")
        else:  # delivery mode and priority are a byte, the others short strings
            at += 1 if bit in (12, 11) else 1 + data[at]
    return data[at + 1 : at + 1 + data[at]].decode() if flags >> 7 & 1 else ""


def _kind_of(error: Exception) -> type[BrokerUnreachable] | None:
    """What a node says by not letting a connection be opened; None where it says nothing of the relay."""
    code = error.code if isinstance(error, ServerClosed) else 0
    if code == _NOT_ALLOWED and "connection limit" in str(error):
        return TooManyConnections
    return BrokerRefused if code == _ACCESS_REFUSED or handshake_refused(error) else None
