"""Moto's server in place of SQS, SNS and STS, on a free port of 127.0.0.1: an emulator, not AWS.

What it holds is in its memory, and gone when it stops. It takes any credentials, until ``MOTO`` settings say otherwise.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from relay.localservers.process import free_port
from relay.localservers.server import LocalServer
from tests.support.paths import ROOT

REGION: Final = "eu-central-1"
CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
"""The environment of a client: credentials, and none of the machine's own."""


class AwsServer(LocalServer):
    """One emulator for all regions."""

    name = "Moto"
    ready_within = 60.0

    def __init__(self, *, settings: Mapping[str, str] | None = None, tls: tuple[Path, Path] | None = None) -> None:
        """``settings`` are variables of moto (``INITIAL_NO_AUTH_ACTION_COUNT``), ``tls`` its certificate and key."""
        super().__init__()
        self._settings, self._tls = settings or {}, tls
        self.port = 0

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    def _prepare(self) -> None:
        self.port = free_port()

    def _command(self) -> Sequence[str | Path]:
        command = [sys.executable, "-m", "tests.support.servers.moto", "-H", "127.0.0.1", "-p", str(self.port)]
        return command if self._tls is None else [*command, "-c", str(self._tls[0]), "-k", str(self._tls[1])]

    def _environment(self) -> Mapping[str, str]:
        own = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.folder), "PYTHONPATH": str(ROOT)}
        return own | CREDENTIALS | dict(self._settings)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


def publisher_url(kind: str, endpoint: str) -> str:
    """PUBLISHER_URL for an emulator at ``endpoint``."""
    return f"{kind}://{REGION}?endpoint={endpoint}"
