"""The two publishers without a broker: null, and stdout on a pipe."""

from __future__ import annotations

import base64
import json
import os
import threading
from typing import Any

from relay.brokers.null import NullPublisher
from relay.brokers.stdout import StdoutPublisher
from relay.core.headers import wire_headers
from relay.core.ports import Publisher
from tests.brokers.harness.base import Features, Harness, StoredMessage
from tests.support.waiting import eventually


class NullHarness(Harness):
    """Nothing can be read back, nothing can fail."""

    features = Features(reads_back=False, at_once=True)

    def publisher(self, **options: Any) -> Publisher:
        return NullPublisher()

    async def destination(self) -> str:
        return "anywhere"


class StdoutHarness(Harness):
    """A pipe whose reader can pause (hang) and go away (stop)."""

    features = Features(hangs=True)

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        self._lines: list[bytes] = []
        self._destinations = 0
        self._reading = threading.Event()
        self._reading.set()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def publisher(self, **options: Any) -> Publisher:
        return StdoutPublisher(self._write_end)

    async def destination(self) -> str:
        self._destinations += 1
        return f"destination-{self._destinations}"

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        def messages() -> list[StoredMessage]:
            lines = [line.decode() for line in list(self._lines)]
            return [_message(line) for line in lines if json.loads(line)["event_type"] == destination]

        await eventually(lambda: len(messages()) >= count)
        return messages()[:count]

    def hang(self) -> None:
        self._reading.clear()

    def resume(self) -> None:
        self._reading.set()

    def close(self) -> None:
        self._reading.set()
        os.close(self._write_end)
        self._reader.join()
        os.close(self._read_end)

    def _read(self) -> None:
        rest = b""
        while data := os.read(self._read_end, 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            self._lines.extend(lines)
            self._reading.wait()


def _message(text: str) -> StoredMessage:
    line = json.loads(text)
    payload = line["payload"]
    # The column's own text stands at the end; inside a JSON string these quotes would be escaped.
    headers = text.partition(',"headers":')[2].removesuffix("}")
    return StoredMessage(
        line["event_id"],
        line["partition_key"],
        base64.b64decode(payload) if line.get("payload_encoding") == "base64" else payload.encode(),
        wire_headers(headers),
    )
