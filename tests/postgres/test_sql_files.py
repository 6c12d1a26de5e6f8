"""Every statement has a name of its own, says what it does, and is sent by some code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from openoutbox.names import BESIDE, OF_A_SCHEMA
from openoutbox.statements import SqlFolder, SqlLibrary
from relay.postgres.sql import TableName, load_sql, statement, statement_names
from tests.support.paths import ROOT
from tests.support.sql_files import sql_files, sql_statements

_TAGGED = re.compile(r"--\?\s*(.+?)\s*$", re.MULTILINE)
_MENTION = re.compile(r"( ONLY|INSERT INTO|ALTER TABLE|CREATE TABLE|(NOT|IF) EXISTS|COPY|\bON)$")
_ANY = r"[\w/.:]+"
_PLAIN_TABLES = ("events", "inbox", "inbox_tries", *BESIDE, *OF_A_SCHEMA)
"""Ours, but for those of the event store and the log, which are partitioned, and Spark's."""


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "twice.sql").write_text(
        "-- name: one\nSELECT 1;\n\n-- name: two\nSELECT 2;\n\n-- name: one\nSELECT 3;\n"
    )
    with pytest.raises(ValueError, match=r"twice\.sql: the name one stands there twice"):
        SqlLibrary((SqlFolder(tmp_path),)).load("twice:two")


def test_a_named_statement_is_sent_without_its_semicolon(tmp_path: Path) -> None:
    (tmp_path / "pair.sql").write_text("-- What both are for.\n\n-- name: a\nSELECT 1;\n\n-- name: b\nSELECT ';'\n")
    library = SqlLibrary((SqlFolder(tmp_path),))
    assert library.statement_names("pair") == ["a", "b"]
    assert (library.load("pair:a"), library.load("pair:b")) == ("SELECT 1\n", "SELECT ';'\n")
    with pytest.raises(KeyError):
        library.load("pair:c")


def test_no_file_of_the_relay_hides_one_of_the_client() -> None:
    assert len(sql_files()) == len(set(sql_files()))


@pytest.mark.parametrize("file", sql_files())
def test_no_file_has_a_name_twice(file: str) -> None:
    statement_names(file.removesuffix(".sql"))  # raises


@pytest.mark.parametrize("path", sql_statements())
def test_every_statement_says_what_it_does(path: str) -> None:
    assert load_sql(path).startswith("-- ")
    tags = {word.lstrip("!") for words in _TAGGED.findall(load_sql(path)) for word in re.split(r"[\s|]+", words)}
    for tag in [None, *tags]:
        assert "--?" not in statement(path, tags=[tag] if tag else [])


@pytest.mark.parametrize("path", sql_statements())
def test_every_statement_is_sent_by_some_code(path: str) -> None:
    """Code names the statement, or the file or folder that it sends whole; values of f-strings are strings or names.

    Or another statement has it as a condition.
    """
    file = path.partition(":")[0]
    whole = [path, file, *(parent.as_posix() for parent in Path(file).parents if len(parent.parts) > 1)]
    within = [name.partition("/")[2] for name in whole]  # code of one room may leave the room out
    names = whole + [name for name in within if re.search("[/:]", name)]  # a single word stands for many other things
    is_condition = any(f"@{path} " in load_sql(other) for other in sql_statements())
    assert is_condition or any(map(_is_named, names)), f"no code sends {path}"


@pytest.mark.parametrize("path", sql_statements())
def test_every_statement_on_a_plain_table_leaves_child_tables_out(path: str) -> None:
    """A child's rows have ctids of their own, which an UPDATE or DELETE by ctid would meet by chance."""
    tags = {word.lstrip("!") for words in _TAGGED.findall(load_sql(path)) for word in re.split(r"[\s|]+", words)}
    names = {f"openoutbox_{name}": TableName(name, "the test") for name in _PLAIN_TABLES}
    for tag in [None, *tags]:
        sent = statement(path, names=names, tags=[tag] if tag else [])
        code = "\n".join(line for line in sent.splitlines() if not line.lstrip().startswith("--"))
        for before in re.findall(r'((?:\S+\s+){2})"the test"\."\w+"(?![.\w])', code):
            assert _MENTION.search(before.strip()), (before, path)


def _is_named(path: str) -> bool:
    literals, patterns, words = _code()
    if path in literals:
        return True
    matches = (match for pattern in patterns if (match := pattern.fullmatch(path)))
    return any(all(_is_known(value, words) for value in match.groups()) for match in matches)


def _is_known(value: str, words: frozenset[str]) -> bool:
    """Whether the code has the value of a placeholder, or all of its parts."""
    return value in words or all(part in words for part in re.split("[/.:]", value))


@cache
def _code() -> tuple[frozenset[str], tuple[re.Pattern[str], ...], frozenset[str]]:
    """The strings of the code; its f-strings that begin like a path, as patterns; and all that may stand in those."""
    literals: set[str] = set()
    patterns: set[str] = set()
    words: set[str] = set()
    for source in [*(ROOT / "relay").rglob("*.py"), *(ROOT / "client").rglob("*.py")]:
        for node in _nodes(ast.parse(source.read_text(encoding="utf-8"))):
            match node:
                case ast.JoinedStr(values=parts):
                    patterns.add("".join(_part(part) for part in parts))
                case ast.Constant(value=str(text)):
                    literals.add(text)
                    words.add(text.strip("/:"))
                case ast.Name(id=name):
                    words.add(name)
    paths = tuple(re.compile(pattern) for pattern in sorted(patterns) if re.match(r"\w+(/|:\()", pattern))
    return frozenset(literals), paths, frozenset(literals | words)


def _part(part: ast.expr) -> str:
    return re.escape(str(part.value)) if isinstance(part, ast.Constant) else f"({_ANY})"


def _nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes but docstrings, which name statements without sending them."""
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        yield node
        children = list(ast.iter_child_nodes(node))
        nodes += [
            child for child in children if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant))
        ]
