"""The site of ``docs/``: each page is in the navigation, no link leaves it, other projects' scripts are as released.

``make check`` builds it strictly beside these tests: a link to a page or section that does not exist fails there.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator

from tests.support.paths import ROOT

DOCS = ROOT / "docs"
VENDOR = DOCS / "assets/vendor"
CONFIGURATION = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
_LINK = re.compile(r"\]\((?!\w+:)([\w/.-]+)(?:#[\w-]+)?\)")


def pages(entry: object) -> Iterator[str]:
    """The pages of one entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for inner in entry.values():
            yield from pages(inner)
    elif isinstance(entry, list):
        for inner in entry:
            yield from pages(inner)


def test_every_page_is_in_the_navigation_once() -> None:
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    named = Counter(pages(CONFIGURATION["nav"]))
    assert set(named) == written
    assert [page for page, count in named.items() if count > 1] == []


def test_no_link_of_a_page_leaves_the_site() -> None:
    """A file of the checkout is named as `code`; a link to it would be dead on the site."""
    outside = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in DOCS.rglob("*.md")
        for target in _LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).resolve().is_relative_to(DOCS)
    ]
    assert outside == []


def test_scripts_of_other_projects_have_their_checksums_and_licences() -> None:
    lines = (VENDOR / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    checksums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert set(checksums) == {path.name for path in VENDOR.glob("*.js")}
    for name, digest in checksums.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest
    table = (VENDOR / "VENDORED.txt").read_text(encoding="utf-8")
    assert all(name in table for name in checksums)
    assert all((VENDOR / name).stat().st_size for name in re.findall(r"\b\w+\.txt\b", table) if name != "VENDORED.txt")
