"""The libraries of other projects are those that were released, and a page loads nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re

from relay.console.pages.render import FOLDER

STATIC = FOLDER / "static"
TEMPLATES = FOLDER / "templates"


def test_the_libraries_have_their_checksums_and_licences() -> None:
    lines = (STATIC / "licenses" / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    checksums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert set(checksums) == {"htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css"}
    for name, digest in checksums.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
    table = (STATIC / "licenses" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in table for name in checksums)
    assert all((STATIC / "licenses" / name).stat().st_size for name in re.findall(r"`(\w+\.txt)`", table))


def test_no_template_has_an_inline_script_or_style_or_another_host() -> None:
    files = sorted(TEMPLATES.glob("*.html"))
    assert len(files) > 8
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|hx-on|//[\w.]+\.\w+/", text) == [], file
        assert "|safe" not in text.replace(" ", ""), file
