"""A small identity provider: gives out signed tokens for a client's id and secret, as OAuth 2 says.

The client credentials grant and nothing else. Who checks the tokens is given the public key as a file of JSON web
keys.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

AUDIENCE = "kafka"
ISSUER = "https://issuer.test"
_KEY_ID = "only"
_SECONDS = 300


class TokenIssuer:
    """Listens on a free port of 127.0.0.1 while it is entered; ``url`` is its token endpoint."""

    def __init__(self, client_id: str, secret: str, keys: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        numbers = self._key.public_key().public_numbers()
        public = {"kty": "RSA", "kid": _KEY_ID, "alg": "RS256", "use": "sig"}
        public |= {"n": _number(numbers.n), "e": _number(numbers.e)}
        keys.write_text(json.dumps({"keys": [public]}), encoding="utf-8")
        login = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, f"Basic {login}", client_id))

    @property
    def url(self) -> str:
        """The token endpoint."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def token(self, subject: str) -> str:
        """A token that is good for five minutes."""
        now = int(time.time())
        claims = {"sub": subject, "aud": AUDIENCE, "iss": ISSUER, "iat": now, "exp": now + _SECONDS}
        claims |= {"jti": uuid.uuid4().hex, "scope": "relay"}
        head = _text(json.dumps({"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}).encode())
        body = f"{head}.{_text(json.dumps(claims).encode())}"
        return f"{body}.{_text(self._key.sign(body.encode(), padding.PKCS1v15(), SHA256()))}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(issuer: TokenIssuer, login: str, client_id: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if self.headers.get("Authorization") == login:
                self._reply(200, {"access_token": issuer.token(client_id), "token_type": "Bearer", "expires_in": 300})
            else:
                self._reply(401, {"error": "invalid_client", "error_description": "no such client, or wrong secret"})

        def _reply(self, status: int, body: dict[str, object]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            return

    return Handler


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
