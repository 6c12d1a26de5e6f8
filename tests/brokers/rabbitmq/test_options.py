"""What PUBLISHER_URL may say for RabbitMQ."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.brokers.rabbitmq.options import read_target
from relay.core.errors import ConfigError
from tests.support.options import rabbit_options


@pytest.mark.parametrize(
    ("url", "addresses", "login", "vhost"),
    [
        ("amqp://host", "host:5672", ("guest", "guest"), "/"),
        ("AMQP://host:1/", "host:1", ("guest", "guest"), "/"),
        ("amqp://u:p%40%2F@a,b:2,[::1]:3/v%2Fw", "a:5672, b:2, ::1:3", ("u", "p@/"), "v/w"),
        ("amqp://u@host/%2F", "host:5672", ("u", ""), "/"),
        ("amqps://u:p@host/v", "host:5671", ("u", "p"), "v"),
    ],
)
def test_a_url_is_read(url: str, addresses: str, login: tuple[str, str], vhost: str) -> None:
    target = read_target(rabbit_options(url))
    assert (str(target), (target.user, target.password), target.vhost) == (addresses, login, vhost)
    assert (target.tls is not None) == url.startswith("amqps")
    assert "p@/" not in repr(target)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("host:5672", "write amqp://"),
        ("nats://host", "write amqp://"),
        ("amqp://", "write amqp://"),
        ("amqp://u:hunter2@x@host", "percent-encode"),
        ("amqp://u:hunter2/x@host", "percent-encode"),
        ("amqp://u:hunter2?x@host", "percent-encode|is not known"),
        ("amqp://host:99999", "names no RabbitMQ node"),
        ("amqp://host?heartbeat=5", "'heartbeat' is not known; RabbitMQ takes tls_ca, tls_cert, tls_key"),
        ("amqp://host?tls_ca=/etc/ca.pem", "tls_ca is for TLS; write amqps://"),
        ("amqps://host?tls_ca=/nowhere/ca.pem", "tls_ca='/nowhere/ca.pem' cannot be read"),
        ("amqps://host?tls_key=/nowhere/key.pem", "PUBLISHER_URL: tls_key is set, and tls_cert is not"),
    ],
)
def test_an_invalid_url_is_refused_without_its_login(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read_target(rabbit_options(url))
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca"
    path.write_text("hunter2", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"tls_ca='{path}': not a PEM file"):
        read_target(rabbit_options(f"amqps://host?tls_ca={path}"))


def test_without_mandatory_there_must_be_an_exchange() -> None:
    read_target(rabbit_options("amqp://host", exchange="delayed", mandatory=False))
    with pytest.raises(ConfigError, match="RABBITMQ_MANDATORY=false is for an exchange"):
        read_target(rabbit_options("amqp://host", mandatory=False))


def test_an_exchange_has_a_longest_name() -> None:
    read_target(rabbit_options("amqp://host", exchange="x" * 255))
    with pytest.raises(ConfigError, match="RABBITMQ_EXCHANGE is longer than 255 bytes"):
        read_target(rabbit_options("amqp://host", exchange="ü" * 128))
