"""What ``relay-cli console`` says at its start of the variables that it was given."""

from __future__ import annotations

import pytest

from relay.console.serve import VARIABLES
from relay.settings.settings import Settings
from tests.support.console import ConsoleProcess

NOWHERE = "postgres://console@127.0.0.1:1/app"


@pytest.mark.process
def test_variables_without_effect_are_said_and_the_log_level_is_followed() -> None:
    variables = {
        "LOG_LEVEL": "warning",
        "LOG_STORE_URL": "postgres://log:hunter2@db/app",
        "CONSOLE_TOKEN_FILE": "/etc/openoutbox/hunter2",
        "RELAY_IDD": "an application's own",
    }
    with ConsoleProcess(NOWHERE, **variables) as console:
        console.wait_ready()
        lines, text = console.log_lines(), console.log()
    assert [line["msg"] for line in lines if line.get("action") == "setting_warning"] == [
        "LOG_STORE_URL is no longer a variable and is ignored; set DELIVERY_LOG_URL instead",
        "CONSOLE_TOKEN_FILE is not a variable of the console and is ignored; did you mean CONSOLE_TOKENS_FILE?",
    ]
    assert {line["level"] for line in lines} == {"warning"}
    assert "hunter2" not in text


def test_a_link_of_kubernetes_is_ignored_and_said() -> None:
    settings = Settings.from_env({"STORAGE_URL": NOWHERE, "CONSOLE_PORT": "tcp://10.96.0.17:80"}, only=VARIABLES)
    [said] = settings.ignored
    assert said.startswith("CONSOLE_PORT is ignored: ")
    assert settings.console_port == Settings.from_env({"STORAGE_URL": NOWHERE}).console_port


@pytest.mark.parametrize("variable", ["NATS_PASSWORD_COMMAND", "DESTINATIONS_FILE"])
def test_what_asks_nats_for_its_duplicate_window_is_read(variable: str) -> None:
    settings = Settings.from_env({"STORAGE_URL": NOWHERE, variable: "any"}, only=VARIABLES)
    assert getattr(settings, variable.lower()) is not None
