"""One connection to an MQTT broker: it ends once and is not used again.

paho-mqtt runs it in a thread; every callback passes into the event loop, so that all state is the loop's alone.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from relay.core.errors import BrokerUnreachable

_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: a closed socket sends nothing more, not even what the kernel holds


@dataclass(frozen=True)
class Address:
    """Where the broker is, and who logs in."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Session:
    """``answered(mid, reason)`` and ``ended(reason)`` are called in the event loop."""

    def __init__(
        self, address: Address, answered: Callable[[int, ReasonCode], None], ended: Callable[[str], None]
    ) -> None:
        self._address, self._answered, self._ended = address, answered, ended
        self._loop = asyncio.get_running_loop()
        self._connected: asyncio.Future[str] = self._loop.create_future()
        self.alive = False
        self._client = client = Client(
            CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5, reconnect_on_failure=False
        )
        if address.user:
            client.username_pw_set(address.user, address.password)
        if address.tls:
            client.tls_set()
        client.on_connect = lambda *call: self._in_loop(self._on_connect, call[3])
        client.on_connect_fail = lambda *_: self._in_loop(self._on_end, "no connection")
        client.on_disconnect = lambda *call: self._in_loop(self._on_end, str(call[3]))
        client.on_publish = lambda *call: self._in_loop(answered, call[2], call[3])

    async def connect(self, timeout: float) -> None:
        """Connect and log in. Raises BrokerUnreachable."""
        self._client.connect_timeout = timeout
        self._client.connect_async(self._address.host, self._address.port)
        self._client.loop_start()
        try:
            async with asyncio.timeout(timeout):
                reason = await asyncio.shield(self._connected)
        except TimeoutError:
            reason = f"no answer within {timeout:g} s"
        if reason:
            await self.drop()
            raise BrokerUnreachable(f"{self._address}: {reason}")

    def publish(self, topic: str, payload: bytes, properties: Properties) -> int:
        """Hand over one message, and return its number. Raises ValueError for one that MQTT cannot carry."""
        return self._client.publish(topic, payload, qos=1, properties=properties).mid

    async def drop(self) -> None:
        """End it at once: on return nothing more is sent."""
        self.alive = False
        sock: Any = self._client.socket()
        if sock is not None:
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                # Wakes the thread, which else keeps the socket for a second; not TLS's own, which would go on in clear.
                socket.socket.shutdown(sock, socket.SHUT_RD)
                sock.close()
        with suppress(TimeoutError):  # the thread holds no connection any more
            async with asyncio.timeout(1.0):
                await asyncio.to_thread(self._client.loop_stop)

    def _in_loop(self, call: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop has ended before the thread
            self._loop.call_soon_threadsafe(call, *arguments)

    def _on_connect(self, reason: ReasonCode) -> None:
        self.alive = not reason.is_failure
        if not self._connected.done():
            self._connected.set_result(str(reason) if reason.is_failure else "")

    def _on_end(self, reason: str) -> None:
        was_alive, self.alive = self.alive, False
        if not self._connected.done():
            self._connected.set_result(reason)
        if was_alive:
            self._ended(reason)
