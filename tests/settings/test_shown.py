"""The settings as every user may see them: complete, with what was changed, and without a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from pydantic import SecretStr

from relay.settings.settings import Settings
from relay.settings.shown import ShownSetting, settings_json, shown_settings
from relay.settings.variables import NAMES
from tests.settings.test_no_secret_shown import check, secrets

_STORAGE = "postgres://user:48151@db:5432/shop?sslmode=require&password=62342"


def shown(**environ: str) -> dict[str, ShownSetting]:
    return shown_settings(Settings.from_env({"STORAGE_URL": _STORAGE, "PUBLISHER_TYPE": "null", **environ}))


def changed(**environ: str) -> dict[str, str | None]:
    return {name: setting.value for name, setting in shown(**environ).items() if setting.changed}


def test_every_variable_of_a_relay_is_shown_and_no_other() -> None:
    assert list(shown()) == [name for name in NAMES if not name.startswith(("CONSOLE_", "API_TOKEN"))]


def test_the_path_of_a_webhook_may_be_a_secret() -> None:
    values = shown(
        PUBLISHER_TYPE="http", PUBLISHER_URL="https://u:48151@host:8443/T0/62342?token=t", HTTP_SECRETS="s1 s2"
    )
    assert values["PUBLISHER_URL"].value == "https://u:***@host:8443/***"
    assert values["HTTP_SECRETS"].value == "***"


def test_what_was_changed_is_marked_and_what_follows_from_it_is_not() -> None:
    url = {"STORAGE_URL": "postgres://user:***@db:5432/shop?sslmode=require&password=***"}
    assert changed() == {**url, "PUBLISHER_TYPE": "null"}
    assert changed(BATCH_SIZE="500") == {**url, "PUBLISHER_TYPE": "null", "BATCH_SIZE": "500"}
    values = shown(BATCH_SIZE="500", LEASE_TIMEOUT="180s", POLL_INTERVAL="1.5s", WAKE_UP="yes")
    assert values["MAX_IN_FLIGHT"] == ShownSetting("4000", False)
    assert values["LEASE_TIMEOUT"] == ShownSetting("3m", False)
    assert values["POLL_INTERVAL"] == ShownSetting("1.5s", True)
    assert values["WAKE_UP"] == ShownSetting("true", True)
    assert values["STORAGE_TABLE_NAME"] == ShownSetting("openoutbox_events", False)
    assert values["SERVER_PORT"].value in {"0.0.0.0:8080", ":8080", "[::]:8080"}
    assert values["DELIVERY_LOG_URL"] == ShownSetting(None, False)


def test_an_implied_type_is_no_change() -> None:
    settings = Settings.from_env({"STORAGE_URL": _STORAGE, "PUBLISHER_URL": "nats://token@a,nats://b"})
    values = shown_settings(settings)
    assert values["PUBLISHER_TYPE"] == ShownSetting("nats", False)
    assert values["PUBLISHER_URL"] == ShownSetting("nats://***@a,nats://b", True)


def test_variables_of_opentelemetry_hide_their_headers() -> None:
    values = shown(
        OTEL_TRACES_EXPORTER="otlp",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://user:48151@collector:4318?key=62342",
        OTEL_EXPORTER_OTLP_HEADERS="authorization=35792",
        OTEL_RESOURCE_ATTRIBUTES="password=35792",
    )
    assert {name: value for name, (value, _) in values.items() if name.startswith("OTEL_")} == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:***@collector:4318?key=***",
        "OTEL_EXPORTER_OTLP_HEADERS": "***",
        "OTEL_RESOURCE_ATTRIBUTES": "***",
        "OTEL_TRACES_EXPORTER": "otlp",
    }


@pytest.mark.parametrize(
    ("variable", "shape"),
    [
        ("PUBLISHER_URL", "kafka://user:{}@a:1,b:2"),
        ("PUBLISHER_URL", "user:{}@a:1"),
        ("PUBLISHER_URL", "kafka://a:1?sasl.mechanism=PLAIN&ssl.key.pem={}"),
        ("PUBLISHER_URL", "kafka://a:1?sasl.jaas.config={}"),
        ("DELIVERY_LOG_URL", "clickhouse://user:{}@a:1/d"),
        ("DELIVERY_LOG_URL", "postgres://user:{}@a:1/d"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "{}"),
    ],
)
@given(secret=secrets())
def test_no_secret_is_shown(variable: str, shape: str, secret: tuple[str, list[str]]) -> None:
    text, parts = secret
    value = shape.format(text.replace("&", "+") if "?" in shape else text)
    otel = {variable: value} if variable.startswith("OTEL_") else {}
    values = dict(Settings.from_env({"STORAGE_URL": "postgres://u@h/d", "RELAY_ID": "relay"}))
    written = settings_json(Settings.model_construct(**{**values, variable.lower(): SecretStr(value), "otel": otel}))
    check(written, parts)
