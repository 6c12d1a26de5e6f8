"""The document of the command line is what the commands say."""

from __future__ import annotations

from typing import Any

import pytest
from typer.main import get_command

from relay_cli.app import COMMANDS, GROUPS, app
from relay_cli.docs import markdown
from tests.support.paths import ROOT


def command(name: str) -> Any:
    root: Any = get_command(app)
    return root.get_command(None, name)


def test_the_document_is_up_to_date() -> None:
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert text == markdown(), "run: PYTHONPATH=.:cli python -m relay_cli.docs"


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_lists_of_commands_show_whole_sentences(name: str) -> None:
    listed = [command(name), *getattr(command(name), "commands", {}).values()]
    assert [one.name for one in listed if not one.get_short_help_str().endswith(".")] == []


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_shows_an_example_of_itself_and_its_exit_codes(name: str) -> None:
    text = command(name).help
    assert f"Example: relay-cli {name}" in text
    assert "Exit codes: 0 " in text


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_takes_the_shared_options_and_explains_each(name: str) -> None:
    options = {option for parameter in command(name).params for option in parameter.opts}
    assert {"--storage-url", "--table", "--json"} <= options
    assert all(parameter.help for parameter in command(name).params)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_option_that_takes_a_value_says_of_what_kind(name: str) -> None:
    assert all(parameter.metavar for parameter in command(name).params if not getattr(parameter, "is_flag", False))
