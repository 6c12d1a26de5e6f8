"""One list of variables: the contract's, the settings', the help's and the documentation's."""

from __future__ import annotations

import re
from pathlib import Path

from relay.settings.__main__ import renewed
from relay.settings.describe import describe, help_text
from relay.settings.settings import Settings
from relay.settings.variables import NAMES
from tests.support.paths import ROOT

CONTRACT = Path(__file__).with_name("contract_variables.txt")


def contract_defaults() -> dict[str, str]:
    lines = CONTRACT.read_text(encoding="utf-8").splitlines()
    return {name: default for name, _, default in (line.partition(" ") for line in lines)}


FILES = dict.fromkeys(("STORAGE_URL_FILE", "PUBLISHER_URL_FILE", "DELIVERY_LOG_URL_FILE"), "unset")
LOG = {"DELIVERY_LOG_SCHEMA": "openoutbox_log", "DELIVERY_LOG_PREFIX": "none", "DELIVERY_LOG_RETENTION_DAYS": "unset"}
CONSOLE = {
    "CONSOLE_PORT": "127.0.0.1:8090",
    "CONSOLE_LOGIN_LIFETIME": "8h",
    "CONSOLE_TRUSTED_PROXIES": "unset: none",
    "CONSOLE_OIDC_SCOPE": "openid profile email",
    "CONSOLE_OIDC_NAME_CLAIM": "preferred_username",
    "CONSOLE_OIDC_ROLES_CLAIM": "roles",
    "CONSOLE_OIDC_ROLES": '{"reader": "reader", "operator": "operator", "admin": "admin"}',
    "CONSOLE_OIDC_OTHER_ROLE": "none",
    **dict.fromkeys(("CONSOLE_URL", "CONSOLE_TOKENS_FILE", "CONSOLE_OIDC_ISSUER"), "unset"),
    **dict.fromkeys(("CONSOLE_SECRET", "CONSOLE_SECRET_FILE", "CONSOLE_OIDC_CLIENT_ID"), "unset"),
    **dict.fromkeys(("CONSOLE_OIDC_CLIENT_SECRET", "CONSOLE_OIDC_CLIENT_SECRET_FILE"), "unset"),
}
RABBITMQ = {
    "RABBITMQ_EXCHANGE": "the default exchange",
    "RABBITMQ_PUBLISH_TIMEOUT": "10s",
    "RABBITMQ_CONNECTION_TIMEOUT": "10s",
}
ROUTING = {"ROUTE_PREFIX": "none", "ROUTES_FILE": "unset", "DESTINATIONS_FILE": "unset"}
FORMATS = {"MESSAGE_FORMAT": "openoutbox", "CLOUDEVENTS_SOURCE": "required for cloudevents"}
REDIS = {"REDIS_MAXLEN": "unset: all of them"}
OURS = {
    **FORMATS,
    "WAKE_UP": "false",
    "FLEET_ALLOW_MIXED": "false",
    "EVENT_STORE_SCHEMA": "unset",
    "STORAGE_PREPARED": "auto",
}
HTTP = {
    "HTTP_ENDPOINTS_FILE": "unset",
    "HTTP_SECRETS": "unset",
    "HTTP_SECRETS_FILE": "unset",
    "HTTP_TIMEOUT": "10s",
    "HTTP_CONNECTION_TIMEOUT": "5s",
    "HTTP_CONNECTIONS_PER_HOST": "8",
    "HTTP_CONTENT_TYPE": "application/json",
    "HTTP_ALLOW_PRIVATE": "false",
    "HTTP_TLS_CA": "the system's",
    "HTTP_TLS_CERT": "unset",
    "HTTP_TLS_KEY": "unset",
}
AWS = {
    "AWS_PUBLISH_TIMEOUT": "10s",
    "AWS_CONNECTION_TIMEOUT": "10s",
    "AWS_NAME_REPLACEMENT": "-",
    "SNS_TOPIC_ARN_PREFIX": "the credentials' account, the URL's region",
}
BEYOND = {**OURS, **FILES, **REDIS, **RABBITMQ, **HTTP, **AWS, **ROUTING, **LOG, **CONSOLE}
"""What the contract does not know; by its default nothing is different."""


def test_every_variable_of_the_contract_exists_with_its_default() -> None:
    rows = {
        row.variable: row.default.removesuffix(" for kafka, nats, redis, rabbitmq, sqs and sns") for row in describe()
    }

    assert {name: rows.pop(name) for name in BEYOND} == BEYOND
    assert rows == contract_defaults()


def test_settings_hold_exactly_the_described_variables() -> None:
    fields = {name.upper() for name in Settings.model_fields} - {"OTEL", "OF_OTHERS", "WARNINGS"}

    assert fields == {row.variable for row in describe()} - {"OTEL_*"} == set(NAMES)


def test_every_variable_is_described() -> None:
    assert all(row.meaning.endswith(".") and row.group and row.default for row in describe())


def test_the_help_names_every_variable_with_its_default() -> None:
    shown = dict(re.findall(r"^  ([A-Z_*]+)(?: \(.*?\))?, default: (.*)$", help_text(), re.MULTILINE))

    assert shown == {row.variable: row.default for row in describe()}


def test_the_documentation_is_up_to_date() -> None:
    text = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")

    assert text == renewed(text), "run: python -m relay.settings"


def test_the_environment_is_read_by_the_settings_alone() -> None:
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "relay").rglob("*.py"))
        if re.search(r"os\.environ|os\.getenv", path.read_text(encoding="utf-8"))
    ]

    patience = "relay/conformance/waiting.py"  # of tests, as TEST_PATIENCE says
    assert readers == [
        patience,
        *(f"relay/settings/{name}.py" for name in ("listening", "locations", "screen", "settings")),
    ]
