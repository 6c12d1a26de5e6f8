"""The fingerprint of a destination: shared by lists with a common server, different for others, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relay.app.relay_identity import fingerprint, reported_settings
from relay.core.heartbeats import same_destination
from relay.routing.reported import read_reported
from relay.settings.settings import Settings
from tests.brokers.harness.base import make_event


def of(url: str, kind: str = "kafka") -> str:
    environ = {"STORAGE_URL": "postgres://u:p@h/d", "PUBLISHER_TYPE": kind, "PUBLISHER_URL": url}
    return fingerprint(Settings.from_env(environ))


@pytest.mark.parametrize(
    ("kind", "one", "same"),
    [
        ("kafka", "b:9092,a:9092", "kafka://A,B:9092"),
        ("kafka", "kafka://user:one@a:9092", "kafka://user:two@a:9092?sasl.mechanism=PLAIN"),
        ("nats", "nats://a:4222", "nats://token@a"),
        ("redis", "redis://a", "redis://:secret@a:6379/0"),
        ("rabbitmq", "amqp://a", "amqp://u:secret@a:5672/%2F"),
        ("http", "https://a/hook", "https://u:secret@A:443/hook?token=x"),
        ("sqs", "sqs://eu-central-1", "sqs://EU-central-1/"),
    ],
)
def test_spelling_and_login_do_not_matter(kind: str, one: str, same: str) -> None:
    assert of(one, kind) == of(same, kind)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a,b", "b:9092,c"), ("a", "kafka://c,b,A:9092")],
)
def test_lists_that_share_a_server_are_one_destination(one: str, other: str) -> None:
    assert same_destination(of(one), of(other))


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("kafka", "a,b", "c,d"),
        ("redis", "redis+cluster://a,b", "redis+cluster://c"),
        ("rabbitmq", "amqp://a/one", "amqp://a/two"),
        ("http", "https://a/one", "https://a/two"),
        ("sqs", "sqs://eu-central-1", "sqs://eu-west-1"),
        ("sns", "sns://eu-central-1", "sns://eu-central-1?endpoint=http://127.0.0.1:4566"),
        ("redis", "redis+sentinel://a,b/first/0", "redis+sentinel://a,b/second/0"),
        ("redis", "redis+sentinel://a,b/first/0", "redis+sentinel://a,b/first/1"),
    ],
)
def test_other_servers_and_other_paths_of_the_same_servers_are_not(kind: str, one: str, other: str) -> None:
    assert not same_destination(of(one, kind), of(other, kind))


def test_server_path_and_type_matter() -> None:
    places = [of("a:9092"), of("b:9092"), of("a:9093"), of("redis://a/1", "redis"), of("redis://a/2", "redis")]
    places += [of("redis://a", "redis"), of("", "null"), of("", "stdout")]
    assert len(set(places)) == len(places)


def test_a_relay_reports_its_routes(tmp_path: Path) -> None:
    routes = tmp_path / "routes.toml"
    routes.write_text('[[route]]\ntype = "debug.*"\ndrop = true\n')
    environ = {"STORAGE_URL": "postgres://u:p@h/d", "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": "a:9092"}
    assert "routes" not in json.loads(reported_settings(Settings.from_env(environ)))
    reported = json.loads(reported_settings(Settings.from_env({**environ, "ROUTES_FILE": str(routes)})))
    assert reported["ROUTES_FILE"]["value"] == str(routes)
    assert read_reported(reported["routes"]["value"]).places(make_event("debug.x")).dropped_by == 1


def test_relays_are_compared_by_what_is_in_their_routes(tmp_path: Path) -> None:
    def digest(pattern: str, **variables: str) -> str | None:
        routes = tmp_path / f"{pattern}.toml"
        routes.write_text(f'[[route]]\ntype = "{pattern}"\ndrop = true\n' if pattern else "")
        environ = {"STORAGE_URL": "postgres://u:p@h/d", "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": "a:9092"}
        given = {**environ, "ROUTES_FILE": str(routes), **variables} if pattern else {**environ, **variables}
        found: str | None = json.loads(reported_settings(Settings.from_env(given))).get("routes", {}).get("digest")
        return found

    assert digest("debug.*") == digest("debug.*", ROUTE_PREFIX="shop.", PUBLISHER_NAME="other") is not None
    assert digest("debug.*") != digest("test.*")
    assert digest("") is digest("", ROUTE_PREFIX="shop.") is None
