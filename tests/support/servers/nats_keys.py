"""NKeys and the JWTs of NATS' decentralised logins, as the tool ``nsc`` would make them."""

from __future__ import annotations

import base64
import json
import os
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import nkeys

OPERATOR, ACCOUNT, USER = nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_USER
_UNLIMITED = (
    "subs",
    "data",
    "payload",
    "imports",
    "exports",
    "conn",
    "leaf",
    "mem_storage",
    "disk_storage",
    "streams",
    "consumer",
)
_NO_STREAMS = {"mem_storage": 0, "disk_storage": 0}


class Key:
    """A new key pair of one kind."""

    def __init__(self, kind: int) -> None:
        self.seed: str = nkeys.encode_seed(os.urandom(32), kind).decode()
        self._pair = nkeys.from_seed(self.seed.encode())
        self.public: str = self._pair.public_key.decode()

    def sign(self, subject: str, name: str, claims: dict[str, Any]) -> str:
        """A JWT about ``subject``, signed with this key."""
        body = {"jti": uuid.uuid4().hex, "iat": int(time.time()), "iss": self.public, "sub": subject, "name": name}
        body["nats"] = {"version": 2, **claims}
        parts = f"{_text({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_text(body)}"
        return f"{parts}.{base64.urlsafe_b64encode(self._pair.sign(parts.encode())).decode().rstrip('=')}"


def _text(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@dataclass(frozen=True)
class Operator:
    """An operator with an account that may use JetStream."""

    key: Key = field(default_factory=lambda: Key(OPERATOR))
    account: Key = field(default_factory=lambda: Key(ACCOUNT))
    system: Key = field(default_factory=lambda: Key(ACCOUNT))

    def config(self) -> str:
        """For the server's configuration file."""
        limits = dict.fromkeys(_UNLIMITED, -1) | {"wildcards": True}
        claims = {"type": "account", "limits": limits}
        mine = self.key.sign(self.account.public, "mine", claims)
        system = self.key.sign(self.system.public, "SYS", {"type": "account", "limits": {**limits, **_NO_STREAMS}})
        operator = self.key.sign(self.key.public, "tests", {"type": "operator", "system_account": self.system.public})
        preload = f"{self.account.public}: {mine}, {self.system.public}: {system}"
        return (
            f"operator: {operator}\nsystem_account: {self.system.public}\nresolver: MEMORY\n"
            f"resolver_preload: {{ {preload} }}\n"
        )

    def credentials(self, account: Key | None = None) -> str:
        """A user's credentials file, as signed by ``account``; by default the one that the server knows."""
        user = Key(USER)
        jwt = (account or self.account).sign(
            user.public, "relay", {"type": "user", "subs": -1, "data": -1, "payload": -1}
        )
        return (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        )
