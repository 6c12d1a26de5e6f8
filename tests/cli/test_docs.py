"""The document of the command line is what the commands say."""

from __future__ import annotations

from typing import Any

import pytest
from typer.main import get_command

from relay_cli.app import COMMANDS, GROUPS, app
from relay_cli.docs import markdown
from relay_cli.values import _Reader
from tests.support.paths import ROOT


def command(name: str) -> Any:
    root: Any = get_command(app)
    return root.get_command(None, name)


def test_the_document_is_up_to_date() -> None:
    text = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert text == markdown(), "run: PYTHONPATH=.:cli python -m relay_cli.docs"


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_lists_of_commands_show_whole_sentences(name: str) -> None:
    listed = [command(name), *getattr(command(name), "commands", {}).values()]
    assert [one.name for one in listed if not one.get_short_help_str().endswith(".")] == []


def leaves(group: Any, path: str = "") -> dict[str, Any]:
    """The commands of a group and of the groups in it, ready to run, by their names below the group."""
    commands = {}
    for name in group.commands:
        one = group.get_command(None, name)
        whole = f"{path} {name}".strip()
        commands.update(leaves(one, whole) if hasattr(one, "commands") else {whole: one})
    return commands


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_shows_an_example_of_itself_and_its_exit_codes(name: str) -> None:
    text = command(name).help
    assert f"Example: relay-cli {name}" in text
    assert "Exit codes: 0 " in text


@pytest.mark.parametrize("group", list(GROUPS))
def test_every_command_of_a_group_shows_an_example_of_itself(group: str) -> None:
    """Spark's jobs print their own help: ``tests/spark/jobs/test_arguments.py`` reads their examples."""
    commands = {name: one for name, one in leaves(command(group)).items() if one.add_help_option}
    assert [name for name, one in commands.items() if f"Example: relay-cli {group} {name}" not in one.help] == []


@pytest.mark.parametrize("group", list(GROUPS))
def test_every_value_of_a_groups_option_is_read_by_a_parser_of_ours(group: str) -> None:
    """What typer would read itself costs the import of pydantic, and its message names no value."""
    for name, one in leaves(command(group)).items():
        one.make_context(name, [], resilient_parsing=True)
        assert [each.name for each in one.params if not isinstance(each.process_value, _Reader)] == [], name


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_value_of_an_option_is_read_by_a_parser_of_ours(name: str) -> None:
    one = command(name)
    one.make_context(name, [], resilient_parsing=True)
    assert [each.name for each in one.params if not isinstance(each.process_value, _Reader)] == []


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_takes_the_shared_options_and_explains_each(name: str) -> None:
    options = {option for parameter in command(name).params for option in parameter.opts}
    database = {"--storage-url", "--table"} if name != "route" else set()  # it opens no database
    printed = {"--json"} if name != "console" else set()  # it serves, and prints nothing
    assert database | printed <= options
    assert all(parameter.help for parameter in command(name).params)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_option_that_takes_a_value_says_of_what_kind(name: str) -> None:
    assert all(parameter.metavar for parameter in command(name).params if not getattr(parameter, "is_flag", False))
