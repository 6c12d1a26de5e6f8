"""``python -m tests.console.screenshots FOLDER``: every page of the console on an outbox with trouble, as pictures.

On a phone and on a desk, light and dark, for people to look at. ``--readme`` takes those of the README alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page

from relay.localservers.postgres import PostgresServer
from tests.console.scene import Scene, pages_of, scene
from tests.support.console import chromium
from tests.support.paths import ROOT

WIDTHS: Final = (360, 800, 1400)
README_FOLDER: Final = ROOT / "docs" / "pictures"
_HEIGHT: Final = 900
_README: Final = (1120, 700)
_SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


def take(browser: Browser, address: str, paths: dict[str, str], folder: Path) -> None:
    """One picture of each page for each width and colour scheme."""
    for scheme in _SCHEMES:
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": _HEIGHT}, color_scheme=scheme)
            for name, path in paths.items():
                page.goto(address + path)
                page.wait_for_load_state("networkidle")
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
            page.close()


def take_refusals(browser: Browser, address: str, folder: Path) -> None:
    """The answer to a wrong password."""
    for scheme in _SCHEMES:
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": _HEIGHT}, color_scheme=scheme)
            page.goto(f"{address}/login")
            page.get_by_label("Token").fill("wrong")
            page.get_by_role("button", name="Log in with the token").click()
            page.get_by_role("alert").wait_for()
            page.screenshot(path=folder / f"login-wrong-{width}-{scheme}.png", full_page=True)
            page.close()


def take_for_readme(browser: Browser, address: str) -> None:
    """The overview, as the README shows it."""
    README_FOLDER.mkdir(exist_ok=True)
    width, height = _README
    for scheme in _SCHEMES:
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1.25
        )
        page.goto(f"{address}/")
        page.screenshot(path=README_FOLDER / f"console-{scheme}.png")
        page.close()


def replay_some(browser: Browser, address: str) -> str:
    """Replay a few dead letters, so that there is a change to show; its path."""
    page = browser.new_page()
    page.goto(f"{address}/changes/new?action=replay&event_type=user.signup")
    page.get_by_label("Reason").fill("the broker's limit was raised")
    page.get_by_role("button", name="Replay").click()
    page.wait_for_url("**/changes/*")
    path = page.url.removeprefix(address)
    page.close()
    return path


def pause_one(page: Page, address: str) -> None:
    """Pause an event type, so that there is a pause to show."""
    page.goto(f"{address}/fleet")
    page.get_by_label("Type or prefix").fill("invoice.sent")
    page.get_by_label("Reason").fill("the consumer is being repaired")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume event type invoice.sent").wait_for()
    page.close()


def take_all(browser: Browser, shown: Scene, folder: Path) -> None:
    """Every page, and the login page."""
    folder.mkdir(parents=True, exist_ok=True)
    change = replay_some(browser, shown.console)
    pause_one(browser.new_page(), shown.console)
    take(browser, shown.console, {**pages_of(shown.outbox), "change": change}, folder)
    take(browser, shown.guarded, {"login": "/login"}, folder)
    take_refusals(browser, shown.guarded, folder)


def main() -> None:
    """Start everything, take the pictures, stop everything."""
    parser = argparse.ArgumentParser("python -m tests.console.screenshots")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(".cache/screenshots"))
    parser.add_argument("--readme", action="store_true", help=f"only those in {README_FOLDER.relative_to(ROOT)}")
    arguments = parser.parse_args()
    with PostgresServer() as postgres, scene(postgres.url, ugly=not arguments.readme) as shown, chromium() as browser:
        if arguments.readme:
            take_for_readme(browser, shown.console)
        else:
            take_all(browser, shown, arguments.folder)


if __name__ == "__main__":
    main()
