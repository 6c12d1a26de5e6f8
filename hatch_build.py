"""Writes into what is built which commit it was built of: ``0.2.0.dev1234+g0123abc`` between two releases.

The number counts the commits, so that a later one is a later version. A release, whose number in ``relay/version.py``
has no ``.dev0``, stays as it is, and so does what is built without git and without ``OPENOUTBOX_VERSION``, as the image
is, which has only the files that it needs. ``python hatch_build.py`` prints the version of this checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

FILE: Final = "relay/version.py"
_WRITTEN: Final = "__version__ = NUMBER"


def full_version(root: Path) -> str:
    """The version of a checkout, or of a folder without git: then that of its file."""
    if given := os.environ.get("OPENOUTBOX_VERSION"):
        return given
    found = re.search(r'^NUMBER = "([^"]+)"', (root / FILE).read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{FILE} names no version")
    number = found[1]
    if not number.endswith(".dev0"):
        return number
    try:
        top, count, commit = (
            subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
            for words in (
                ("rev-parse", "--show-toplevel"),
                ("rev-list", "--count", "HEAD"),
                ("rev-parse", "--short=8", "HEAD"),
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return number
    # A source archive that was unpacked within another repository is not a commit of that.
    return f"{number.removesuffix('0')}{count}+g{commit}" if Path(top).samefile(root) else number


def get_build_hook() -> Any:  # noqa: ANN401 - hatchling is there only when something is built
    """What hatchling calls."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface  # noqa: PLC0415

    class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
        """Puts the module with the full version into the place of the checkout's."""

        PLUGIN_NAME = "custom"

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called before a wheel or a source archive is built; an editable one runs the checkout's module."""
            root = Path(self.root)
            text = (root / FILE).read_text(encoding="utf-8")
            if version == "editable" or _WRITTEN not in text:
                return
            self._folder = tempfile.TemporaryDirectory()
            module = Path(self._folder.name, "version.py")
            module.write_text(text.replace(_WRITTEN, f'__version__ = "{full_version(root)}"'), encoding="utf-8")
            build_data["force_include"][str(module)] = FILE

    return CommitHook


if __name__ == "__main__":
    sys.stdout.write(f"{full_version(Path(__file__).parent)}\n")
