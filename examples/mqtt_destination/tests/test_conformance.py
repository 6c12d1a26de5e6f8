"""MQTT in the suite that every destination of the relay passes, against a real mosquitto."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from openoutbox_mqtt.kind import MQTT
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from relay.brokers.kinds import DestinationConfig
from relay.conformance.harness import Features, Harness, StoredMessage
from relay.conformance.suite import *  # noqa: F403 -- the cases
from relay.conformance.waiting import eventually, wait_until
from relay.core.ports import Publisher

SERVER = shutil.which("mosquitto") or "/usr/sbin/mosquitto"


class MqttHarness(Harness):
    """A broker, and a subscriber that keeps everything: the broker itself keeps nothing."""

    features = Features(hangs=True, stops=True, invalid_names=("", "a/+", "a/#", "$SYS/x"), big_batch=5_000)

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._config = folder / "mosquitto.conf"
        self._config.write_text(f"listener {self._port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
        self._messages: dict[str, list[MQTTMessage]] = {}
        self._subscribed = threading.Event()
        self._subscriber = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        self._subscriber.reconnect_delay_set(1, 1)
        self._subscriber.on_connect = lambda *_: self._subscriber.subscribe("#", qos=1)
        self._subscriber.on_subscribe = lambda *_: self._subscribed.set()
        self._subscriber.on_message = lambda _, __, message: self._messages.setdefault(message.topic, []).append(
            message
        )
        self._subscriber.connect_async("127.0.0.1", self._port)
        self.start()

    def publisher(self, **options: object) -> Publisher:
        assert MQTT.build is not None
        return MQTT.build(
            DestinationConfig("mqtt", f"mqtt://127.0.0.1:{self._port}", {"MQTT_TIMEOUT": "3s"}, in_order=False)
        )

    async def destination(self) -> str:
        return f"conformance/{uuid.uuid4().hex[:12]}"

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        await eventually(lambda: len(self._messages.get(destination, ())) >= count)
        return [_message(message) for message in self._messages[destination][:count]]

    def hang(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        self._subscribed.clear()
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        self._process = subprocess.Popen([SERVER, "-c", self._config], stderr=subprocess.DEVNULL)
        wait_until(self._listens, what="mosquitto")
        self._subscriber.loop_start()
        wait_until(self._subscribed.is_set, what="the subscription")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def close(self) -> None:
        self._subscriber.loop_stop()
        self._subscriber.disconnect()
        self._process.kill()
        self._process.wait()


def _message(message: MQTTMessage) -> StoredMessage:
    properties = [(unquote(name), unquote(value)) for name, value in message.properties.UserProperty]
    own = dict(properties[:2])
    key = own.get("X-Partition-Key")
    return StoredMessage(own["X-Event-ID"], key, message.payload, properties[1 if key is None else 2 :])


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """One broker for all cases: each has a topic of its own."""
    instance = MqttHarness(tmp_path_factory.mktemp("mqtt"))
    yield instance
    instance.close()
