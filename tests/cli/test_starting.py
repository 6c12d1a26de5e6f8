"""How ``relay-cli`` starts and ends: as a module, by Ctrl-C at any moment, for a shell that completes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from relay.version import __version__
from tests.cli.mistakes import STORAGE
from tests.cli.running import COMMAND, run_cli, run_program

pytestmark = pytest.mark.process

INTERRUPT = """
import importlib.abc, os, signal, sys
class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
"""


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    done = run_program([sys.executable, "-m", "relay_cli", "--version"], tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")
    done = run_program([sys.executable, "-m", "relay_cli", "nosuch"], tmp_path)
    assert (done.returncode, "relay-cli has no command 'nosuch'" in done.stderr) == (2, True)


CLI = "from relay_cli.main import main; main()"
DAEMON = "from relay.__main__ import main; sys.argv[1:] = []; sys.exit(main())"


@pytest.mark.parametrize(
    ("program", "module"),
    [(CLI, "typer"), (CLI, "relay_cli.stats"), (CLI, "psycopg"), (DAEMON, "pydantic"), (DAEMON, "uvloop")],
)
def test_ctrl_c_during_an_import_ends_without_a_traceback(tmp_path: Path, program: str, module: str) -> None:
    script = INTERRUPT.format(module) + program
    done = run_program([sys.executable, "-c", script, "stats"], tmp_path, **STORAGE)
    assert (done.returncode, done.stderr) == (130, ""), done.stderr


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("relay-cli st", ["stats", "store"]),
        ("relay-cli list --sta", ["--status"]),
        ("relay-cli list --status de", ["delivering", "delivered", "dead"]),
        ("relay-cli log ev", ["events", "event"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(tmp_path: Path, words: str, completions: list[str]) -> None:
    word = str(len(words.split()) - 1)
    done = run_program(COMMAND, tmp_path, _RELAY_CLI_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=word)
    assert sorted(done.stdout.split()) == sorted(completions), done.stderr


def test_the_script_for_a_shell_is_printed(tmp_path: Path) -> None:
    done = run_cli(tmp_path, "--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.stdout.splitlines()[-1].startswith("complete -o default -F "), done.stderr
