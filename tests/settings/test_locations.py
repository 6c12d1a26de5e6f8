"""The short way to the outbox's and the log's address reads what ``Settings`` reads, with the same errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.core.errors import ConfigError
from relay.settings.locations import log_location, outbox_location
from relay.settings.settings import Settings

OUTBOX = {"STORAGE_URL", "STORAGE_TABLE_NAME"}
LOG = {"DELIVERY_LOG_URL", "DELIVERY_LOG_SCHEMA", "DELIVERY_LOG_PREFIX"}
URL = "postgres://u:hunter2@h:5432/d"


def through_settings(only: set[str]) -> tuple[object, ...] | str:
    try:
        settings = Settings.from_process(only=only)
    except ConfigError as error:
        return str(error)
    if "STORAGE_URL" in only:
        return settings.storage_url.get_secret_value() if settings.storage_url else None, settings.storage_table_name
    url = settings.delivery_log_url
    return url.get_secret_value() if url else None, settings.delivery_log_schema, settings.delivery_log_prefix


def through_places(only: set[str]) -> tuple[object, ...] | str:
    try:
        return tuple(outbox_location({}) if "STORAGE_URL" in only else log_location({}))
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"STORAGE_URL": URL},
        {"STORAGE_URL": "", "STORAGE_TABLE_NAME": ""},
        {"STORAGE_URL": URL, "STORAGE_TABLE_NAME": "Orders.outbox"},
        {"STORAGE_URL": "mysql://u:hunter2@h", "STORAGE_TABLE_NAME": "a.b.c"},
        {"STORAGE_URL": "postgres://u:hun@ter2@h/d"},
        {"STORAGE_URL": "postgres://h:99999/d"},
        {"STORAGE_URL": URL, "STORAGE_URL_FILE": "url"},
        {"STORAGE_URL_FILE": "url"},
        {"STORAGE_URL_FILE": "missing"},
        {"STORAGE_URL": "postgres://\udcff@h/d"},
        {"DELIVERY_LOG_URL": "clickhouse://h/d", "DELIVERY_LOG_SCHEMA": "own", "DELIVERY_LOG_PREFIX": "p_"},
        {"DATABASE_URL": URL, "storage_url": URL, "LOG_STORE_URL": URL},
        {"DATABASE_URL": URL, "STORAGE_TABLE_NAME": "a.b.c"},
        {"DELIVERY_LOG_URL_FILE": "url"},
        {"DELIVERY_LOG_SCHEMA": "no name", "DELIVERY_LOG_PREFIX": "1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("only", [OUTBOX, LOG], ids=["outbox", "log"])
def test_both_ways_agree(
    variables: dict[str, str], only: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "url").write_text(f"{URL}\n", encoding="utf-8")
    (tmp_path / ".env").write_text("STORAGE_TABLE_NAME=from_file\n", encoding="utf-8")
    for name in ("STORAGE_URL", "STORAGE_TABLE_NAME", *LOG):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    expected, outcome = through_settings(only), through_places(only)
    assert outcome == expected
    assert "hunter2" not in outcome if isinstance(outcome, str) else True


def test_an_option_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STORAGE_URL_FILE", "/nowhere")
    assert outbox_location({"STORAGE_URL": URL}).url == URL
