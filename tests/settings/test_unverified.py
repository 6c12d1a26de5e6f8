"""A password that goes to another machine over a path that is not verified is warned about."""

from __future__ import annotations

import pytest

from relay.settings.settings import Settings
from relay.settings.unverified import unverified_host


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("postgres", "postgres://u:p@db.example.com/app"),
        ("postgres", "postgresql://u:p@db:5432/app?sslmode=require"),
        ("postgres", "postgres://u:p@localhost,db:5433/app?sslmode=prefer"),
        ("postgres", "postgres://u:p@/app?host=db&sslmode=disable"),
        ("postgres", "postgres://db/app?user=u&password=p"),
        ("postgres", "postgres://u@db/app?passfile=/run/secrets/pgpass"),
        ("redis", "redis://:p@db:6379/0"),
        ("redis", "redis+sentinel://u:p@db:26379,db2:26379/main"),
        ("redis", "rediss://u:p@db?ssl_cert_reqs=none"),
        ("nats", "nats://u:p@db:4222"),
        ("nats", "nats://token@db"),
        ("nats", "nats://u:p@127.0.0.1:4222,db:4222"),
        ("rabbitmq", "amqp://u:p@db"),
        ("rabbitmq", "amqp://u:p@db1,db/vhost"),
        ("http", "http://u:p@db/"),
        ("kafka", "kafka://u:p@db:9092,db2:9092?security.protocol=SASL_PLAINTEXT"),
        ("kafka", "kafka://db?security.protocol=sasl_plaintext&sasl.username=u&sasl.password=p"),
        ("log", "postgres://u:p@db/log?sslmode=require"),
        ("log", "clickhouse://u:p@db:8123/log"),
    ],
)
def test_an_unverified_path_of_a_login_is_found(kind: str, url: str) -> None:
    assert unverified_host(kind, url).startswith("db")


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("postgres", "postgres://u:p@db/app?sslmode=verify-full&sslrootcert=/ca.pem"),
        ("postgres", "postgres://u:p@db/app?sslmode=verify-ca"),
        ("postgres", "postgres://u:p@db/app?sslrootcert=system"),
        ("postgres", "postgres://u@db/app"),
        ("postgres", "postgres://u:p@localhost:5432/app"),
        ("postgres", "postgres://u:p@[::1]:5432/app"),
        ("postgres", "postgres://u:p@/app"),
        ("postgres", "postgres://u:p@%2Fvar%2Frun/app"),
        ("postgres", "postgres://u:p@/app?host=/var/run"),
        ("redis", "rediss://u:p@db"),
        ("redis", "redis://db:6379"),
        ("redis", "unix:///run/redis?db=0"),
        ("nats", "tls://u:p@db"),
        ("nats", "nats://u:p@db?tls_ca=/ca.pem"),
        ("nats", "nats://db"),
        ("rabbitmq", "amqps://u:p@db"),
        ("kafka", "db:9092"),
        ("kafka", "kafka://u:p@db:9092"),
        ("kafka", "kafka://u:p@db?security.protocol=SASL_PLAINTEXT&sasl.mechanism=SCRAM-SHA-512"),
        ("http", "https://u:p@db/"),
        ("http", "http://db/"),
        ("log", "postgres://u:p@db/log?sslmode=verify-full"),
        ("log", "clickhouses://u:p@db:8443/log"),
        ("log", "chdb:///folder"),
        ("log", "memory://"),
    ],
)
def test_other_paths_are_not(kind: str, url: str) -> None:
    assert unverified_host(kind, url) == ""


def test_the_warning_names_variable_and_host_and_shows_no_password() -> None:
    settings = Settings.from_env(
        {
            "STORAGE_URL": "postgres://relay:qvxzj@db.example.com/app",
            "DELIVERY_LOG_URL": "postgres://relay:qvxzj@log.example.com/app",
            "PUBLISHER_URL": "nats://relay:qvxzj@broker.example.com",
        }
    )
    texts = [one for one in settings.warnings if "not verified" in one]
    assert [one.partition(":")[0] for one in texts] == ["STORAGE_URL", "DELIVERY_LOG_URL", "PUBLISHER_URL"]
    assert "goes to db.example.com" in texts[0]
    assert "goes to log.example.com" in texts[1]
    assert "goes to broker.example.com" in texts[2]
    assert "qvxzj" not in "".join(texts)


def test_the_secrets_of_settings_are_what_their_urls_and_variables_hold() -> None:
    settings = Settings.from_env(
        {
            "STORAGE_URL": "postgres://relay:qvxzj-qvxzj%40@db.example.com/app",
            "PUBLISHER_URL": "nats://short:abc@a,nats://postgres:postgres@b",
            "HTTP_SECRETS": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_C2FVsBQIhrscChlQIMV1bgtiyrKN7XZl",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=production,Authorization=Bearer%20qvxzj/jzxvq%3D",
            "OTEL_SERVICE_NAME": "a-name-that-is-shown",
        }
    )
    assert settings.secrets() == {
        "qvxzj-qvxzj%40",
        "qvxzj-qvxzj@",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_C2FVsBQIhrscChlQIMV1bgtiyrKN7XZl",
        "qvxzj/jzxvq=",
    }
    own = settings.model_copy(update={"of_others": {"ACME_TOKEN": "jzxvq-jzxvq", "ACME_REGION": "eu-central-1"}})
    assert own.secrets() == {*settings.secrets(), "jzxvq-jzxvq"}


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({"STORAGE_URL": "postgres://u@db.example/app?sslmode=require"}, "STORAGE_PASSWORD_COMMAND"),
        ({"PUBLISHER_TYPE": "nats", "PUBLISHER_URL": "nats://db.example"}, "NATS_PASSWORD_COMMAND"),
    ],
)
def test_the_password_of_a_command_goes_there_too(variables: dict[str, str], command: str) -> None:
    known = {"STORAGE_URL": "postgres://u@localhost/app", "PUBLISHER_TYPE": "null", **variables}
    assert Settings.from_env(known).warnings == ()
    [warning] = Settings.from_env({**known, command: "vault read"}).warnings
    assert "the password goes to db.example over a path that is not verified" in warning
