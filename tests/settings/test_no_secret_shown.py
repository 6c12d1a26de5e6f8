"""No part of a secret is shown, whatever it holds unescaped: a URL is refused without it, or read as it was meant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relay.app import publishers
from relay.brokers.kafka.options import producer_config
from relay.brokers.nats.options import connect_arguments
from relay.brokers.redis.servers import RedisServers
from relay.core.errors import ConfigError, OutboxError
from relay.core.secrets import mask_url
from relay.deliverylog import open_delivery_log
from relay.postgres.url import connection_parameters
from relay.settings.settings import Settings

HOST = "127.0.0.1"
_WORD = st.text("jqvxz", min_size=5, max_size=8) | st.sampled_from(["48151", "62342", "35792", "59163"])
"""Parts of a secret that no message holds by chance; some are valid as a port."""
_SPECIAL = st.text("/?#@:%&=+,;$!*'\"<>[]{}() |\\ü", min_size=1, max_size=3)


@st.composite
def secrets(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A secret, and its parts."""
    parts = draw(st.lists(_WORD, min_size=2, max_size=4))
    text = parts[0]
    for part in parts[1:]:
        text += draw(_SPECIAL) + part
    return text, parts


def check(message: str, parts: list[str]) -> None:
    assert [part for part in parts if part in message] == []


def read(environ: dict[str, str], parts: list[str]) -> Settings | None:
    """The settings; None when they are refused, which must not show a part of the secret."""
    fixed = {"STORAGE_URL": "postgres://u@h/d", "PUBLISHER_TYPE": "stdout", "RELAY_ID": "relay"}
    try:
        accepted = Settings.from_env(fixed | environ)
    except ConfigError as error:
        check(str(error), parts)
        return None
    check(repr(accepted) + str(accepted) + " ".join(accepted.warnings), parts)
    return accepted


def kafka_hosts(accepted: Settings) -> tuple[str, str | None]:
    config = producer_config(publishers.options_of(accepted))
    return config["bootstrap.servers"], config.get("sasl.password")


def nats_hosts(accepted: Settings) -> tuple[str, str | None]:
    arguments = connect_arguments(publishers.options_of(accepted))
    return ",".join(arguments["servers"]).removeprefix("nats://"), arguments.get("password")


def redis_hosts(accepted: Settings) -> tuple[str, str | None]:
    arguments = RedisServers(publishers.options_of(accepted))._pool.connection_kwargs
    return f"{arguments['host']}:{arguments['port']}", arguments.get("password")


BROKERS: dict[str, tuple[str, Callable[[Settings], tuple[str, str | None]]]] = {
    "kafka": ("kafka://", kafka_hosts),
    "kafka without a scheme": ("", kafka_hosts),
    "nats": ("nats://", nats_hosts),
    "redis": ("redis://", redis_hosts),
}


@pytest.mark.parametrize("kind", BROKERS)
@settings(max_examples=40, deadline=None)
@example(secret=("12345/23456", ["12345", "23456"]))
@example(secret=("12345?a=b23456", ["12345", "23456"]))
@example(secret=("12345,23456", ["12345", "23456"]))
@example(secret=("12345@12345,23456", ["12345", "23456"]))
@example(secret=("qqqqq://zzzzz", ["qqqqq", "zzzzz"]))
@given(secret=secrets())
def test_the_address_of_a_broker(kind: str, secret: tuple[str, list[str]]) -> None:
    text, parts = secret
    scheme, hosts = BROKERS[kind]
    accepted = read(
        {"PUBLISHER_TYPE": kind.split(maxsplit=1)[0], "PUBLISHER_URL": f"{scheme}user:{text}@{HOST}:1"}, parts
    )
    if accepted is None:
        return
    try:
        address, password = hosts(accepted)
        if not kind.startswith("kafka"):  # a trial producer for each example takes long; its own test does it
            asyncio.run(publishers.build_publisher(accepted).open())
    except ConfigError as error:
        check(str(error), parts)
    else:
        assert address == f"{HOST}:1"
        assert password == unquote(text)


@pytest.mark.parametrize("scheme", ["redis+sentinel", "redis+cluster"])
@settings(max_examples=40, deadline=None)
@given(secret=secrets())
def test_several_servers_of_redis(scheme: str, secret: tuple[str, list[str]]) -> None:
    text, parts = secret
    accepted = read({"PUBLISHER_TYPE": "redis", "PUBLISHER_URL": f"{scheme}://u:{text}@{HOST}:1,{HOST}:2/name"}, parts)
    if accepted is None:
        return
    try:
        servers = RedisServers(publishers.options_of(accepted))
    except ConfigError as error:
        check(str(error), parts)
    else:
        assert [str(start) for start in servers._starts] == [f"{HOST}:1", f"{HOST}:2"]
        assert servers._pool.connection_kwargs["password"] == unquote(text)


@settings(max_examples=15, deadline=None)
@example(secret=("qqqqq?zzzzz", ["qqqqq", "zzzzz"]))
@example(secret=("12345?23456.a=1", ["12345", "23456"]))
@given(secret=secrets())
def test_what_librdkafka_refuses(secret: tuple[str, list[str]]) -> None:
    text, parts = secret
    accepted = read({"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": f"kafka://user:{text}@{HOST}:1"}, parts)
    assert accepted is not None
    try:
        asyncio.run(publishers.build_publisher(accepted).open())
    except ConfigError as error:
        check(str(error), parts)


@pytest.mark.parametrize("variable", ["STORAGE_URL", "DELIVERY_LOG_URL"])
@settings(max_examples=40, deadline=None)
@example(secret=("12345/23456", ["12345", "23456"]))
@given(secret=secrets())
def test_the_address_of_a_database(variable: str, secret: tuple[str, list[str]]) -> None:
    text, parts = secret
    url = f"postgres://user:{text}@{HOST}:1/database"
    if read({variable: url}, parts) is None:
        return
    try:
        parameters = connection_parameters(url, "", source=variable)
    except ConfigError as error:
        check(str(error), parts)
    else:
        assert (parameters["host"], parameters["port"]) == (HOST, "1")
        assert parameters["password"] == unquote(text)


SHAPES = ["{}", "x://{}", "x://{}@h", "mysql://u:{}@h/d", "http://u:{}@h", "u:{}@h"]


@pytest.mark.parametrize("variable", ["PUBLISHER_URL", "STORAGE_URL", "API_TOKEN", "OTEL_EXPORTER_OTLP_HEADERS"])
@settings(max_examples=40, deadline=None)
@given(secret=secrets(), shape=st.sampled_from(SHAPES))
def test_a_value_of_another_shape(variable: str, shape: str, secret: tuple[str, list[str]]) -> None:
    text, parts = secret
    if variable.endswith("_URL") and "@" not in shape:
        return  # no login stands in it: such a text is shown, so that the operator sees the mistake
    if variable == "STORAGE_URL" and shape == "x://{}@h":
        return  # the user's name stands there, which is shown
    for publisher in ("kafka", "nats", "redis", ""):
        accepted = read({variable: shape.format(text), "PUBLISHER_TYPE": publisher}, parts)
        if accepted is not None and variable == "PUBLISHER_URL":
            try:
                asyncio.run(publishers.build_publisher(accepted).open()) if publisher != "kafka" else kafka_hosts(
                    accepted
                )
            except ConfigError as error:
                check(str(error), parts)


@settings(max_examples=25, deadline=None)
@given(secret=secrets(), scheme=st.sampled_from(["x", "mysql", "clickhouse"]))
def test_the_address_of_another_delivery_log(scheme: str, secret: tuple[str, list[str]]) -> None:
    text, parts = secret
    text = text if scheme != "clickhouse" else text + "/"  # else it is a valid one, and is connected to
    with pytest.raises(OutboxError) as refused:
        asyncio.run(open_delivery_log(f"{scheme}://user:{text}@{HOST}:1/database"))
    check(str(refused.value), parts)


@settings(max_examples=40, deadline=None)
@given(secret=secrets(), scheme=st.sampled_from(["postgres://", "nats://", "kafka://", "x+y://"]))
def test_masking(scheme: str, secret: tuple[str, list[str]]) -> None:
    text, parts = secret
    check(mask_url(f"{scheme}user:{text}@host:1/x"), parts)
    check(mask_url(f"user:{text}@host:1"), parts)
