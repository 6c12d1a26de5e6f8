"""Put the built site into a folder of all versions: ``python -m deploy.site FOLDER``, as `make site-version` does.

Each version has a folder of its own there; ``versions.json`` lists them for the choice of a version in the site's head,
and ``index.html`` leads to the newest. A version that is there already is replaced; the others stay as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from relay.version import __version__

BUILT: Final = Path(__file__).parents[2] / ".cache/site"
_VERSION: Final = re.compile(r"\d+(\.\d+)*")
_LEADS: Final = """<!doctype html>
<meta charset="utf-8">
<title>Open Outbox Relay</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<a href="{newest}/index.html">The documents of version {newest}</a>
"""


def add_version(built: Path, folder: Path, version: str) -> list[str]:
    """Copy the site in ``built``; returns the versions that are there now, newest first.

    Raises FileNotFoundError where ``built`` has no site.
    """
    if not (built / "index.html").is_file():
        raise FileNotFoundError(f"{built} has no site; run make site")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / version, ignore_errors=True)
    shutil.copytree(built, folder / version)
    there = (page.parent.name for page in folder.glob("*/index.html"))
    names = sorted(filter(_VERSION.fullmatch, there), key=_order, reverse=True)
    listed = [{"version": name, "title": name, "aliases": ["latest"] if name == names[0] else []} for name in names]
    (folder / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(_LEADS.format(newest=names[0]), encoding="utf-8")
    return names


def _order(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def main() -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.site", description=__doc__)
    parser.add_argument("folder", type=Path, help="what a web server serves; made where it does not exist")
    arguments = parser.parse_args()
    try:
        names = add_version(BUILT, arguments.folder, __version__)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{arguments.folder} has the documents of {', '.join(names)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
