"""A real Redis that speaks TLS itself (the wheel's Valkey does not), with users of its own, from Debian's package."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import redis

from relay.localservers.process import free_port
from relay.localservers.server import LocalServer
from tests.support.servers.debian import program
from tests.support.servers.identities import Identities

_PATH = "usr/bin/redis-server"
_PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1")


class SecuredRedis(LocalServer):
    """Takes TLS alone; nothing is kept."""

    name = "Redis"
    ready_within = 30.0

    def __init__(self, identities: Identities, users: Sequence[str], *, certificates: bool = False) -> None:
        """``users`` are lines of an ACL file; ``certificates`` asks each client for one of the same authority."""
        super().__init__()
        self._identities = identities
        self._users = users
        self._certificates = certificates
        self.port = 0

    @property
    def url(self) -> str:
        """The address, without a login."""
        return f"rediss://127.0.0.1:{self.port}/0"

    def _prepare(self) -> None:
        self.port = free_port()
        pair = self._identities.issue("server")
        self._client = self._identities.issue("look", "look.test")
        (self.folder / "users.acl").write_text("".join(f"{user}\n" for user in self._users), encoding="utf-8")
        settings = {
            "bind": "127.0.0.1",
            "port": "0",
            "tls-port": str(self.port),
            "tls-cert-file": pair.certificate,
            "tls-key-file": pair.key,
            "tls-ca-cert-file": self._identities.ca_file,
            "tls-auth-clients": "yes" if self._certificates else "no",
            "aclfile": self.folder / "users.acl",
            "save": "",
            "dir": self.folder,
        }
        lines = [f'{name} "{value}"\n' for name, value in settings.items()]
        (self.folder / "redis.conf").write_text("".join(lines), encoding="utf-8")

    def _command(self) -> list[str | Path]:
        return [program(_PATH, _PACKAGES), self.folder / "redis.conf"]

    def _environment(self) -> Mapping[str, str]:
        unpacked = program(_PATH, _PACKAGES).parents[1]
        libraries = [str(path) for path in (unpacked / "lib").glob("*-linux-gnu*")]
        return os.environ | ({} if unpacked == Path("/usr") else {"LD_LIBRARY_PATH": os.pathsep.join(libraries)})

    def _answers(self) -> bool:
        files = {"ssl_certfile": str(self._client.certificate), "ssl_keyfile": str(self._client.key)}
        ca_file = str(self._identities.ca_file)
        with suppress(redis.RedisError), redis.Redis.from_url(self.url, ssl_ca_certs=ca_file, **files) as client:
            try:
                return bool(client.ping())
            except (redis.AuthenticationError, redis.exceptions.NoPermissionError):
                return True
        return False
