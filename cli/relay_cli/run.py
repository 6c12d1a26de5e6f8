"""Run ``relay-cli``, and print each error with what to do about it; ``relay.core.errors`` says what that is."""

from __future__ import annotations

import logging
from typing import Any

import typer

from relay.core.errors import OutboxError, error_lines, exit_code
from relay_cli.app import app
from relay_cli.codes import FAILED, INTERRUPTED, WRONG
from relay_cli.screen import print_error

_UsageError: Any = typer.BadParameter.__base__  # typer does not export it


def run() -> int:
    """Run the command line of this process; returns the exit code."""
    # Libraries log what they try again; the error that follows says the same. Their lines would stand between the
    # lines of an answer.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        return int(app(prog_name="relay-cli", standalone_mode=False) or 0)
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort:
        print_error("nothing was done")
        return FAILED
    except _UsageError as error:
        _print_usage_error(error)
        return WRONG
    except OutboxError as error:
        print_error(*error_lines(error))
        return exit_code(error)


def _print_usage_error(error: Any) -> None:  # noqa: ANN401 - a class that typer does not export
    """Name the option and its value, and the command whose help lists the options."""
    message = error.format_message().rstrip(".")
    hint = f"{error.ctx.command_path} --help shows what is allowed" if error.ctx is not None else ""
    print_error(message[:1].lower() + message[1:], *([hint] if hint else []))
