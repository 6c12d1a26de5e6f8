"""A mistake of an operator, and what its answer must and must not say."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.cli.running import call_cli

NOISE = ("Traceback", "Value error", "Input should", "pool-1", "error connecting in", "\n\t", "Errno", "hunter2")
"""In no answer, whatever the mistake: what only a programmer understands, and the password of each mistake."""
DOWN = "postgres://app:hunter2@127.0.0.1:1/orders"
"""Nothing listens on port 1."""
STORAGE = {"STORAGE_URL": DOWN}
LOG = {"DELIVERY_LOG_URL": "memory://"}


class Mistake(NamedTuple):
    """A command, the relay's variables, and its answer."""

    command: str
    env: dict[str, str]
    code: int
    says: tuple[str, ...]
    not_says: tuple[str, ...] = ()


def answer(folder: Path, mistake: Mistake) -> str:
    """What the command prints; fails unless its exit code and its words are those of the mistake."""
    done = call_cli(folder, *mistake.command.split(), **mistake.env)
    text = done.stdout + done.stderr
    assert done.returncode == mistake.code, text
    check(text, mistake)
    return text


def check(text: str, mistake: Mistake) -> None:
    """Fail unless ``text`` holds the words of the mistake, and none that it must not."""
    assert [words for words in mistake.says if words not in text] == [], text
    assert [words for words in (*NOISE, *mistake.not_says) if words in text] == [], text
