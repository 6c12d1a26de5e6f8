"""Typer applications with the settings that every command of relay-cli has."""

from __future__ import annotations

from typing import Any, Final

import typer

HELP: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}
"""Context settings of every command and group."""


def command_app() -> typer.Typer:
    """The application of a module that is one command."""
    return typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


def group_app(text: str) -> typer.Typer:
    """The application of a group of commands; ``text`` is its help."""
    return typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
        context_settings=HELP,
        help=text,
    )
