"""``python -m tests.docs.screenshots FOLDER``: pages of the built site as pictures, for people to look at.

On a phone, a tablet and a desk, light and dark; ``make site`` builds the site before.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser

from tests.docs.serving import serving
from tests.support.console import chromium
from tests.support.paths import CACHE

WIDTHS: Final = (360, 768, 1400)
PAGES: Final = ("index", "guide/first-event", "operate/monitoring", "reference/configuration", "design/architecture")
_SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


def take(browser: Browser, address: str, pages: tuple[str, ...], folder: Path) -> None:
    """One picture of each page for each width and colour scheme."""
    for scheme in _SCHEMES:
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            for name in pages:
                page.goto(f"{address}/{name}.html")
                page.wait_for_load_state("networkidle")
                page.screenshot(path=folder / f"{name.replace('/', '-')}-{width}-{scheme}.png")
            page.close()


def main() -> None:
    """Read the arguments, serve the built site, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pages", nargs="*", default=PAGES)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with serving(CACHE / "site") as address, chromium() as browser:
        take(browser, address, tuple(arguments.pages), arguments.folder)


if __name__ == "__main__":
    main()
