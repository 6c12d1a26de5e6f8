"""How a page under ``docs/`` is written: whom it is for, short paragraphs, what next; what it names exists.

tests/system/acceptance/test_documents.py runs blocks of shell, Python and SQL; here every other block has its reason.
tests/console/test_examples.py sends the blocks of HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.documents import DOCUMENTS, blocks
from tests.support.paths import ROOT

LINES = 5
"""The longest paragraph or item of a list."""

PAGES = [document for document in DOCUMENTS if document.startswith("docs/")]

_ROWS = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_TABLE = re.compile(r"\|.*\n\|[-: |]+\|\n")

UNFINISHED: frozenset[str] = frozenset()
"""Pages that are not written this way yet. May only shrink: a page that is, must be taken out."""

FRAGMENTS = {
    "README.md  1": "a drawing",
    "README.md text 1": "the end of a run of make demo",
    "docs/design/architecture.md  1": "a list of the folders",
    "docs/guide/own-destination.md toml 1": "a part of the example's pyproject.toml",
    "docs/guide/spark-archive.md  1": "a list of the files that a run leaves",
    "docs/guide/spark-archive.md  2": "settings of Spark; make tables runs the archive on them",
    "docs/guide/spark-archive.md  3": "settings of Spark; make tables runs the archive on them",
    "docs/operate/deployment.md  1": "values of the chart; tests/deploy/test_helm.py renders values of each kind",
    "docs/operate/managed-postgres.md  1": "drops everything; tests/cli/test_roles.py drops the roles",
    "docs/guide/routing.md toml 1": "tests/routing/test_page.py reads it as the relay does",
    "docs/guide/routing.md toml 2": "tests/routing/test_page.py reads it as the relay does",
    "docs/guide/routing.md toml 3": "tests/routing/test_page.py reads it as the relay does",
    "docs/guide/routing.md toml 4": "tests/routing/test_page.py reads it as the relay does",
    "docs/operate/trust.md json 1": "a policy of AWS, which no emulator of the tests enforces",
    "docs/operate/trust.md redis 1": "tests/brokers/redis/test_access.py uses it",
    "docs/operate/trust.md text 1": "tests/brokers/nats/test_access.py uses it",
    "docs/reference/messages.md toml 1": "an endpoint; tests/brokers/http/test_endpoints.py reads such files",
    "docs/reference/messages.md json 1": "one line of output; tests/brokers/stdout reads such lines",
}
"""Blocks in a language that is not run, and why."""

_FILE = re.compile(r"`((?:relay|cli|sql|tests|deploy|examples|benchmarks)/[\w/.-]+)`")
_TARGET = re.compile(r"`make ([a-z-]+)")


def prose(document: str) -> str:
    """A document without its blocks and without comments."""
    text = (ROOT / document).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def paragraphs(text: str) -> Iterator[list[str]]:
    """The lines of each paragraph and of each item of a list; a table is neither."""
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:- |\d+\. |\||#))", text):
        lines = part.strip().splitlines()
        if lines and not lines[0].startswith(("|", "#")):
            yield lines


def faults(document: str) -> list[str]:
    """What is not as it should be on one page."""
    text = prose(document)
    found = [f"{len(lines)} lines: {lines[0]}" for lines in paragraphs(text) if len(lines) > LINES]
    first = next(paragraphs(text), [""])[0]
    if not first.startswith("For "):
        found.append(f"does not begin with who needs it, For …: {first}")
    if re.findall(r"^## (.+)$", text, re.MULTILINE)[-1:] != ["What next"]:
        found.append("does not end with a section What next")
    return found


def loose(text: str) -> list[str]:
    """Paragraphs that belong to an item of a list on GitHub, and to none on the site, which needs four spaces."""
    return re.findall(r"\n\n( {1,3}\S.*)", text)


@pytest.mark.parametrize("document", PAGES)
def test_a_paragraph_of_a_list_is_one_on_the_site_too(document: str) -> None:
    assert loose(prose(document)) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_table_has_a_head(document: str) -> None:
    """A blank line within a table ends it: what follows is shown as text, with its bars."""
    assert [rows.splitlines()[0] for rows in _ROWS.findall(prose(document)) if not _TABLE.match(rows)] == []


@pytest.mark.parametrize("document", [page for page in PAGES if page not in UNFINISHED])
def test_a_page_begins_with_its_readers_has_short_paragraphs_and_ends_with_what_next(document: str) -> None:
    assert faults(document) == []


def test_no_page_is_called_unfinished_that_is_finished() -> None:
    assert sorted(UNFINISHED - set(PAGES)) == []
    assert [document for document in sorted(UNFINISHED) if not faults(document)] == []


def test_every_block_that_is_not_run_has_a_reason() -> None:
    others = [
        block.key
        for document in DOCUMENTS
        for block in blocks(document)
        if block.language not in {"sh", "python", "sql", "mermaid", "http"}
    ]
    assert sorted(others) == sorted(FRAGMENTS)


@pytest.mark.parametrize("document", [page for page in DOCUMENTS if page != "CHANGELOG.md"])
def test_every_file_and_every_target_that_is_named_exists(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert [path for path in _FILE.findall(text) if not (ROOT / path).exists()] == []
    assert [target for target in _TARGET.findall(text) if target not in targets] == []


def test_a_long_paragraph_is_noticed() -> None:
    long = "\n".join(["word"] * 6)
    assert [len(lines) for lines in paragraphs(f"# Title\n\n{long}\n\n- item\n- {long}\n\n| a | b |\n")] == [6, 1, 6]
