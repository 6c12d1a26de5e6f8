"""What a room's docstring names is there: it is the map by which a newcomer finds a file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

_TOPS = ("relay", "cli/relay_cli", "client/openoutbox")
_ROOMS = sorted(path for top in _TOPS for path in (ROOT / top).rglob("__init__.py"))

_ELSEWHERE = {
    "console/access": {"csrf_token", "proof", "login"},
    "relay/spark": {"openoutbox"},
    "relay/brokers": {"publisher", "session", "options", "errors", "headers", "check"},
}
"""Names in docstrings that are attributes, or files of a folder of the room."""


def _unknown(room: Path) -> list[str]:
    """The names in the docstring that are no file of the room and stand nowhere else in its ``__init__``."""
    source = room.read_text(encoding="utf-8")
    docstring, *body = ast.parse(source).body
    named = re.findall(r"``([a-z_]+)``", ast.get_source_segment(source, docstring) or "")
    beside = {path.stem for path in room.parent.glob("*")} | {room.parent.name}
    code = "\n".join(map(ast.unparse, body))
    return [name for name in named if name not in beside and not re.search(rf"\b{name}\b", code)]


@pytest.mark.parametrize("room", _ROOMS, ids=lambda room: str(room.parent.relative_to(ROOT)))
def test_what_a_room_says_of_its_files_is_there(room: Path) -> None:
    assert set(_unknown(room)) == _ELSEWHERE.get("/".join(room.parts[-3:-1]), set())


def test_a_file_that_is_gone_is_noticed(tmp_path: Path) -> None:
    room = tmp_path / "__init__.py"
    room.write_text('"""``here`` and ``gone``."""\n', encoding="utf-8")
    (tmp_path / "here.py").touch()
    assert _unknown(room) == ["gone"]
