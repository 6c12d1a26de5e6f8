"""Signatures, verified by the standard's own library, and Ed25519's by its algorithm."""

from __future__ import annotations

import base64
import os
import time
import uuid
from datetime import UTC, datetime

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from relay.brokers.http.signing import Signer
from relay.core.errors import ConfigError

BODY = '{"a": "ü"}'.encode()


def secret(prefix: str = "whsec_", size: int = 32) -> str:
    return prefix + base64.b64encode(os.urandom(size)).decode()


def signed(*secrets: str, body: bytes = BODY) -> dict[str, str]:
    webhook_id, now = str(uuid.uuid4()), int(time.time())
    signature = Signer(secrets).signatures(webhook_id, now, body)
    return {"webhook-id": webhook_id, "webhook-timestamp": str(now), "webhook-signature": signature}


def test_the_standards_library_verifies_it() -> None:
    key = secret()
    assert Webhook(key).verify(BODY, signed(key)) == {"a": "ü"}


@pytest.mark.parametrize("size", [24, 64, 65, 200])
def test_it_is_what_the_standards_library_signs(size: int) -> None:
    key, now = secret(size=size), datetime.fromtimestamp(1_700_000_000, UTC)
    theirs = Webhook(key).sign("msg", now, BODY.decode())
    assert Signer([key]).signatures("msg", 1_700_000_000, BODY) == theirs


def test_while_a_secret_is_rotated_a_receiver_with_either_one_verifies() -> None:
    old, new, other = secret(), secret(), secret()
    headers = signed(old, new)
    assert Webhook(old).verify(BODY, headers) == Webhook(new).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(other).verify(BODY, headers)


def test_a_changed_body_is_no_longer_signed() -> None:
    key = secret()
    with pytest.raises(WebhookVerificationError):
        Webhook(key).verify(BODY + b" ", signed(key))


@pytest.mark.parametrize("with_public_key", [False, True])
def test_ed25519(with_public_key: bool) -> None:
    private = Ed25519PrivateKey.generate()
    seed, public = private.private_bytes_raw(), private.public_key()
    key = "whsk_" + base64.b64encode(seed + (public.public_bytes_raw() if with_public_key else b"")).decode()
    hmac_key = secret()
    headers = signed(key, hmac_key)
    version, _, text = headers["webhook-signature"].split(" ")[0].partition(",")
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + BODY
    assert version == "v1a"
    public.verify(base64.b64decode(text), content)
    with pytest.raises(InvalidSignature):
        public.verify(base64.b64decode(text), content + b" ")
    assert Webhook(hmac_key).verify(BODY, headers)  # the other signature of the two


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "plain",
        "whsec_",
        "whsec_c2hvcnQ=",
        "whsec_not base64!",
        "whsk_" + base64.b64encode(b"k" * 31).decode(),
        "whpk_" + base64.b64encode(b"k" * 32).decode(),
    ],
)
def test_what_is_no_secret_is_refused_and_not_shown(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"^HTTP_SECRETS: secret 2 is ") as refusal:
        Signer([secret(), wrong])
    encoded = wrong.partition("_")[2]
    assert not encoded or encoded not in str(refusal.value)
