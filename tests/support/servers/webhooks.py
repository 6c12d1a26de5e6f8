"""The program of a receiver of webhooks as a local server, which may be paused, stopped and started."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from relay.localservers.process import free_port
from relay.localservers.server import LocalServer
from tests.support.paths import ROOT
from tests.support.servers.identities import Identities, KeyPair
from tests.support.waiting import patience


class Post(NamedTuple):
    """One request that was kept."""

    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for known, value in self.headers if known.lower() == name.lower()), None)


class WebhookServer(LocalServer):
    """See ``tests.support.servers.webhook_receiver`` for what it answers. What it was sent ends with it."""

    name = "Webhooks"
    ready_within = 30.0

    def __init__(self, identities: Identities | None = None, *, demands_certificate: bool = False) -> None:
        """``identities`` make it speak TLS."""
        super().__init__()
        self._identities = identities
        self._demands = demands_certificate
        self._pair: KeyPair | None = identities.issue("webhooks") if identities else None
        self._client: KeyPair | None = identities.issue("reader") if identities and demands_certificate else None
        self.port = 0

    @property
    def url(self) -> str:
        """The address of its only endpoint."""
        return f"{'https' if self._pair else 'http'}://127.0.0.1:{self.port}/hook"

    def received(self, event_type: str) -> list[Post]:
        """What came of a type, in order."""
        posts: list[dict[str, Any]] = self._get(f"/?type={quote(event_type)}")
        return [
            Post(one["target"], [(name, value) for name, value in one["headers"]], base64.b64decode(one["body"]))
            for one in posts
        ]

    def requests(self) -> int:
        """How many there were."""
        return int(self._get("/"))

    def _prepare(self) -> None:
        self.port = free_port()

    def _command(self) -> list[str | Path]:
        pair = [self._pair.certificate, self._pair.key] if self._pair else []
        authority = [self._identities.ca_file] if self._identities and self._demands else []
        program = "tests.support.servers.webhook_receiver"
        return [sys.executable, "-P", "-m", program, str(self.port), *pair, *authority]

    def _environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}

    def _answers(self) -> bool:
        with suppress(OSError):
            return self.requests() >= 0
        return False

    def _get(self, target: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience())
        if self._identities is not None:
            context = ssl.create_default_context(cafile=self._identities.ca_file)
            if self._client is not None:
                context.load_cert_chain(self._client.certificate, self._client.key)
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=patience(), context=context)
        try:
            connection.request("GET", target)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


class HostileServer(WebhookServer):
    """A receiver that sends without end: see ``tests.support.servers.hostile_receiver`` for the path of each answer."""

    name = "Hostile webhooks"

    def url_of(self, answer: str) -> str:
        """The endpoint that answers so."""
        return f"http://127.0.0.1:{self.port}/{answer}"

    def _command(self) -> list[str | Path]:
        return [sys.executable, "-P", "-m", "tests.support.servers.hostile_receiver", str(self.port)]

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience())
        try:
            connection.request("GET", "/")
            return connection.getresponse().read() == b""
        except OSError:
            return False
        finally:
            connection.close()
