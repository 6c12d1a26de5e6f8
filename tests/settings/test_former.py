"""A variable of an earlier release is named at the start, with what to use instead."""

from __future__ import annotations

import pytest

from relay.core.errors import ConfigError
from relay.settings.former import FORMER, FormerVariable
from relay.settings.settings import Settings
from relay.settings.variables import NAMES

STORAGE = {"STORAGE_URL": "postgres://db/app"}


@pytest.fixture(autouse=True)
def gone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, variable in {
        "KAFKA_WARP": FormerVariable("set KAFKA_COMPRESSION"),
        "STORAGE_LOCK": FormerVariable("set STORAGE_KEY", refused=True),
        "CONSOLE_LOCK": FormerVariable("set CONSOLE_KEY", refused=True),
    }.items():
        monkeypatch.setitem(FORMER, name, variable)


def warnings(environ: dict[str, str], only: set[str] | None = None) -> list[str]:
    return [each for each in Settings.from_env({**STORAGE, **environ}, only=only).warnings if "no longer" in each]


def test_a_former_variable_is_warned_about_with_what_to_use_instead() -> None:
    [warning] = warnings({"KAFKA_WARP": "9"})
    assert warning == "KAFKA_WARP is no longer a variable and is ignored; set KAFKA_COMPRESSION"


@pytest.mark.parametrize("value", ["yes", "no"])
def test_a_former_variable_whose_loss_is_unsafe_stops_the_start(value: str) -> None:
    with pytest.raises(ConfigError, match=r"^STORAGE_LOCK is no longer a variable; set STORAGE_KEY$"):
        warnings({"STORAGE_LOCK": value})


def test_an_empty_former_variable_counts_as_unset() -> None:
    assert warnings({"STORAGE_LOCK": ""}) == []


def test_a_tool_speaks_of_the_former_variables_that_it_names() -> None:
    environ = {"KAFKA_WARP": "9", "CONSOLE_LOCK": "/etc/users"}
    assert warnings(environ, {"STORAGE_URL"}) == []
    assert len(warnings(environ, {"STORAGE_URL", "KAFKA_WARP"})) == 1
    with pytest.raises(ConfigError, match="set CONSOLE_KEY"):
        warnings(environ, {"STORAGE_URL", "CONSOLE_LOCK"})


def test_the_relay_starts_beside_a_former_variable_of_the_console() -> None:
    settings = Settings.from_env({**STORAGE, "CONSOLE_LOCK": "/etc/users"})
    assert not any("CONSOLE_LOCK" in each for each in settings.warnings)


def test_no_former_variable_is_one_of_today() -> None:
    assert not FORMER.keys() & set(NAMES)


def test_http2s_variable_is_named_with_the_protocol_that_is_left() -> None:
    [warning] = warnings({"HTTP_PROTOCOL": "2"})
    assert "HTTP/1.1" in warning
