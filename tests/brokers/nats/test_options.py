"""The URL of a NATS publisher: what it becomes, and what is refused."""

from __future__ import annotations

import pytest

from relay.brokers.nats.options import connect_arguments
from relay.core.errors import ConfigError
from tests.support.options import nats_options


def test_urls() -> None:
    arguments = connect_arguments(nats_options("nats://us%40er:p%3Aw@a:4222,nats://b:4223"))
    assert arguments["servers"] == ["nats://a:4222", "nats://b:4223"]
    assert (arguments["user"], arguments["password"]) == ("us@er", "p:w")
    assert connect_arguments(nats_options("nats://tok%2Fen@a"))["token"] == "tok/en"
    assert connect_arguments(nats_options("a:1"))["servers"] == ["nats://a:1"]
    assert "tls" in connect_arguments(nats_options("tls://a:1"))
    assert "hunter2" not in repr(nats_options("nats://u:hunter2@a"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "names no NATS server"),
        ("nats://", "names no NATS server"),
        ("http://a", "not a NATS scheme"),
        ("nats://a?bogus=1", "bogus"),
        ("nats://a?tls_ca=/not/there", "tls_"),
        ("nats://a?tls_key=/dev/null", "PUBLISHER_URL: tls_key is set, and tls_cert is not"),
    ],
)
def test_wrong_urls(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        connect_arguments(nats_options(url))
