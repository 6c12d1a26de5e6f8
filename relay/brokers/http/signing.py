"""Signatures by Standard Webhooks 1.0: ``v1`` by HMAC-SHA256, ``v1a`` by Ed25519.

What is signed is ``webhook-id.webhook-timestamp.body``. Several secrets give several signatures, separated by spaces:
while a secret is rotated, a receiver that knows the old or the new one can verify.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from relay.core.errors import ConfigError

_SHORTEST: Final = 24
"""Bytes of an HMAC secret, by the standard."""
_SEED: Final = 32
"""Bytes of an Ed25519 private key; the public key may follow it."""

Sign = Callable[[bytes], str]


class Signer:
    """Signs with each of its secrets. Its ``repr`` shows none."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """``secrets`` as the standard writes them; raises ConfigError, which shows none."""
        self._signs: Sequence[Sign] = [_sign(secret, number) for number, secret in enumerate(secrets, 1)]

    def __bool__(self) -> bool:
        """Whether there is a secret."""
        return bool(self._signs)

    def signatures(self, webhook_id: str, timestamp: int, body: bytes) -> str:
        """The value of ``webhook-signature``."""
        content = f"{webhook_id}.{timestamp}.".encode() + body
        return " ".join([sign(content) for sign in self._signs])


def _sign(secret: str, number: int) -> Sign:
    prefix, _, encoded = secret.partition("_")
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"HTTP_SECRETS: secret {number} is not base64 after its prefix whsec_ or whsk_") from None
    if prefix == "whsec" and len(key) >= _SHORTEST:
        return _hmac_signer(key)
    if prefix == "whsk" and len(key) in {_SEED, 2 * _SEED}:
        return _ed25519_signer(key)
    raise ConfigError(
        f"HTTP_SECRETS: secret {number} is neither whsec_ and the base64 text of at least {_SHORTEST} bytes (HMAC), "
        f"nor whsk_ and that of an Ed25519 private key of {_SEED} or {2 * _SEED} bytes; "
        "make one by: echo whsec_$(openssl rand -base64 32)"
    )


def _hmac_signer(key: bytes) -> Sign:
    keyed = hmac.new(key, digestmod=hashlib.sha256)

    def sign(content: bytes) -> str:
        one = keyed.copy()  # two thirds of what ``hmac.digest`` takes for a small body: the key is hashed already
        one.update(content)
        return f"v1,{base64.b64encode(one.digest()).decode()}"

    return sign


def _ed25519_signer(key: bytes) -> Sign:
    private = Ed25519PrivateKey.from_private_bytes(key[:_SEED])
    return lambda content: f"v1a,{base64.b64encode(private.sign(content)).decode()}"
