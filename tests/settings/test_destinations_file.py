"""DESTINATIONS_FILE: each destination is checked as the variables are, and no secret of it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.core.errors import ConfigError
from relay.settings.destinations_file import read_destinations
from relay.settings.settings import Settings

SECRET = "s3cr3t/?#@:"

WRONG = """
other = 1
["a b"]
url = "nats://h"
[one]
url = "host:9092"
[two]
type = "kafak"
url = "x:1"
[three]
url = "redis://h"
redis_writ_timeout = "1s"
nested = {}
[four]
url = "redis://h"
kafka_compression = "gzip"
[five]
type = "redis"
[six]
redis_write_timeout = "1s"
[seven]
url = "redis://h"
redis_write_timeout = "soon"
[eight]
url = "nats://h"
batch_size = 3
[nine]
type = "kafka"
url = "nats://h"
"""


def settings(tmp_path: Path, text: str, **environ: str) -> Settings:
    path = tmp_path / "destinations.toml"
    path.write_text(text)
    variables = {"STORAGE_URL": "postgres://127.0.0.1/db", "DESTINATIONS_FILE": str(path), **environ}
    return Settings.from_env(variables)


def read(tmp_path: Path, text: str, **environ: str) -> dict[str, Settings]:
    return read_destinations(settings(tmp_path, text, **environ))


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    return str(caught.value).replace(f"DESTINATIONS_FILE: {tmp_path}/destinations.toml: ", "").splitlines()


def test_each_destination_has_its_own_values_and_the_relays_for_all_else(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("redis://h:6379/1\n")
    text = f"""
    [main]
    url = "kafka://one:9092"
    kafka_compression = "zstd"
    kafka_max_attempts = 2
    rate = 12.5

    [cache-1]
    type = "redis"
    url_file = "{tmp_path}/url"
    """
    several = read(tmp_path, text, KAFKA_WRITE_TIMEOUT="3s", PUBLISHER_RATE="50", BATCH_SIZE="7", ROUTE_PREFIX="x.")
    assert list(several) == ["main", "cache-1"]
    main, cache = several.values()
    assert (main.publisher_type, main.publisher_name, main.kafka_compression) == ("kafka", "main", "zstd")
    assert (main.publisher_rate, cache.publisher_rate) == (12.5, 50.0)
    assert (main.kafka_max_attempts, main.kafka_write_timeout, main.batch_size) == (2, 3.0, 7)
    assert (cache.publisher_type, cache.kafka_compression) == ("redis", "snappy")
    assert cache.publisher_url is not None
    assert cache.publisher_url.get_secret_value() == "redis://h:6379/1"
    assert (cache.route_prefix, cache.routes_file, cache.destinations_file) == ("", None, None)


def test_formats_secrets_and_the_variables_of_services_belong_to_their_destination(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n")
    text = f"""
    [hooks]
    url = "https://h/x"
    http_secrets_file = "{tmp_path}/secrets"
    [queue]
    url = "sqs://eu-central-1"
    aws_name_replacement = "_"
    [events]
    url = "nats://h"
    message_format = "cloudevents"
    cloudevents_source = "/shop"
    """
    hooks, queue, events = read(tmp_path, text).values()
    assert hooks.http_secrets is not None
    assert hooks.http_secrets.get_secret_value().startswith("whsec_")
    assert (queue.publisher_type, queue.aws_name_replacement) == ("sqs", "_")
    assert (events.message_format, hooks.message_format) == ("cloudevents", "openoutbox")
    assert problems(tmp_path, '[a]\nurl = "redis://h"\nmessage_format = "debezium"')[0].startswith(
        "destination a: MESSAGE_FORMAT=debezium is not for type=redis"
    )


@pytest.mark.parametrize("kind", ["sqs", "sns"])
@pytest.mark.parametrize("name", ["cloudevents", "cloudevents-structured", "debezium", "debezium-server"])
def test_a_format_that_a_destination_cannot_carry_is_refused_by_its_name(kind: str, name: str, tmp_path: Path) -> None:
    good = '[events]\nurl = "kafka://h:9092"\n'
    queue = f'[queue]\nurl = "{kind}://eu-central-1"\n'
    source = 'cloudevents_source = "/shop"\n' if name.startswith("cloudevents") else ""
    [own] = problems(tmp_path, f'{good}{queue}message_format = "{name}"\n{source}')
    assert own.startswith(f"destination queue: MESSAGE_FORMAT={name} is not for type={kind}, only for kafka")
    with pytest.raises(ConfigError) as of_all:
        read(tmp_path, good + queue, MESSAGE_FORMAT=name, CLOUDEVENTS_SOURCE="/shop")
    assert f"destination queue: MESSAGE_FORMAT={name} is not for type={kind}, only for kafka" in str(of_all.value)
    assert "destination events" not in str(of_all.value)


def test_a_format_of_all_destinations_is_used_and_not_warned_about(tmp_path: Path) -> None:
    text = '[one]\nurl = "nats://h"\n[two]\nurl = "sqs://eu-central-1"\nmessage_format = "openoutbox"\n'
    relay = settings(tmp_path, text, MESSAGE_FORMAT="cloudevents", CLOUDEVENTS_SOURCE="/shop")
    one, two = read_destinations(relay).values()
    assert (one.message_format, one.cloudevents_source, two.message_format) == ("cloudevents", "/shop", "openoutbox")
    assert relay.warnings == one.warnings == two.warnings == ()


def test_without_the_file_there_are_none() -> None:
    assert read_destinations(Settings.from_env({"STORAGE_URL": "postgres://127.0.0.1/db"})) == {}


def test_every_problem_is_reported_with_its_destination_and_key(tmp_path: Path) -> None:
    assert [one.partition(";")[0] for one in problems(tmp_path, WRONG)] == [
        "destination other: it is not a table",
        "destination a b: the name has at most 63 letters, digits, dots, hyphens and underscores, a letter first",
        "destination one: type is not set, and the scheme of url implies none",
        "destination two: type: 'kafak' is not allowed",
        "destination three: 'redis_writ_timeout' is not known",
        "destination three: 'nested' is not known",
        "destination four: kafka_compression: not of the type redis",
        "destination five: url is not set, and type=redis needs it",
        "destination six: it has neither url nor type",
        "destination seven: REDIS_WRITE_TIMEOUT: 'soon' is not a duration",
        "destination eight: 'batch_size' is not known",
        "destination nine: url (nats://…) is the address of nats, but type is kafka",
    ]


def test_a_key_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    text = '[one]\nurl = "redis://h"\nURL = "redis://other"\nredis_maxlen = 5\nREDIS_MAXLEN = 6\n'
    text += 'redis_maxlen_streams = "s"\n'
    assert problems(tmp_path, text) == [
        "destination one: 'URL' is there twice, in upper and lower case; keep one of them",
        "destination one: 'REDIS_MAXLEN' is there twice, in upper and lower case; keep one of them",
    ]


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, "")[0].startswith("it holds no destination")


@pytest.mark.parametrize("variable", ["PUBLISHER_URL", "PUBLISHER_TYPE"])
def test_one_destination_and_several_exclude_one_another(tmp_path: Path, variable: str) -> None:
    value = "nats://h" if variable == "PUBLISHER_URL" else "null"
    with pytest.raises(ConfigError, match=f"DESTINATIONS_FILE and {variable} are both set"):
        settings(tmp_path, "", **{variable: value})


def test_with_several_destinations_nothing_warns_of_standard_output(tmp_path: Path) -> None:
    assert settings(tmp_path, "").warnings == ()


def test_warnings_are_those_of_the_destination_alone(tmp_path: Path) -> None:
    text = """
    [weak]
    url = "kafka://h"
    kafka_required_acks = "one"
    [slow]
    url = "nats://h"
    nats_publish_timeout = "4m"
    [short]
    url = "redis://h"
    redis_maxlen = 10
    redis_maxlen_streams = "orders.*"
    """
    weak, slow, short = read(tmp_path, text, RETRY_MAX_DELAY="1ms").values()
    assert [one.partition(":")[0] for one in weak.warnings] == ["KAFKA_REQUIRED_ACKS=one"]
    assert [one.partition(":")[0] for one in slow.warnings] == [
        "LEASE_TIMEOUT=3m is not longer than NATS_PUBLISH_TIMEOUT=4m"
    ]
    assert [one.partition(" is ")[0] for one in short.warnings] == ["REDIS_MAXLEN=10"]


@pytest.mark.parametrize(
    "text",
    [
        f'[a]\nurl = "redis://:{SECRET}@h:99999/0"\nredis_write_timeout = "x"',
        f'[a]\nurl = "redis://:{SECRET}@h"\ntype = "kafka"',
        f"[a]\nurl = redis://:{SECRET}@h",
        f'[a]\nurl = "redis://:{SECRET}@h"\nurl_file = "/nowhere"',
        f'[a]\nurl = ["redis://:{SECRET}@h"]',
    ],
)
def test_no_error_shows_a_secret(tmp_path: Path, text: str) -> None:
    assert not any("s3cr3t" in one for one in problems(tmp_path, text))


def test_no_representation_shows_a_secret(tmp_path: Path) -> None:
    [one] = read(tmp_path, f'[a]\nurl = "redis://:{SECRET}@h"').values()
    assert "s3cr3t" not in repr(one)
