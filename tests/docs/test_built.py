"""The built site in Chromium, at three widths: diagrams are drawn, no other host is asked, nothing scrolls sideways.

Marked as tests with a server, so that `make check` does not build the site twice.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from deploy.site.__main__ import add_version
from tests.docs.questions import QUESTIONS
from tests.docs.screenshots import PAGES, WIDTHS
from tests.docs.serving import serving
from tests.support.console import chromium
from tests.support.paths import ROOT
from tests.support.waiting import patience

ASK = """async ([worker, questions]) => {
  const search = new Worker(worker);
  const reply = (message) => new Promise((done) => {
    search.onmessage = (event) => done(event.data.data);
    search.postMessage(message);
  });
  const index = await (await fetch("search.json")).json();
  await reply({type: 0, data: index});
  const filter = {input: {type: "operator", data: {operator: "and", operands: []}}};
  const pages = [];
  for (const input of questions) {
    const {items} = await reply({type: 2, data: {input, filter}});
    pages.push(items.slice(0, 3).map((item) => index.items[item.id].location.split(".html")[0]));
  }
  search.terminate();
  return pages;
}"""
"""Asks the site's own search worker; returns the pages of the first three results of each question."""

pytestmark = [pytest.mark.process, pytest.mark.server, pytest.mark.xdist_group("site")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of its own: ``make site`` may be at work on the checkout's."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / "deploy/site", folder / "deploy/site")
    done = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / ".cache/site"


@pytest.fixture(scope="module")
def site(built: Path) -> Iterator[str]:
    """Its address, beside an older version of it."""
    folder = built.parent / "versions"
    for version in ("0.9.0", "0.10.0"):
        names = add_version(built, folder, version)
    assert names == ["0.10.0", "0.9.0"]
    with serving(folder) as address:
        yield f"{address}/0.10.0"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_from_its_own_host_alone_without_an_error(page: Page, site: str, name: str) -> None:
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{site}/{name}.html")
    page.wait_for_load_state("networkidle")
    assert [url for url in requests if not url.startswith((site.rpartition("/")[0], "data:", "blob:"))] == []
    assert errors == []


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_window(page: Page, site: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for name in PAGES:
        page.goto(f"{site}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.parametrize("width", WIDTHS)
def test_the_diagram_is_drawn_and_never_shrunk_until_it_cannot_be_read(page: Page, site: str, width: int) -> None:
    """It is as wide as the window of a phone, so its text has its full size there: a wider one would be lower."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{site}/index.html")
    page.wait_for_function("document.querySelector('div.mermaid')?.offsetHeight > 450", timeout=patience() * 1000)


def test_another_version_is_chosen_in_the_head_and_the_root_leads_to_the_newest(page: Page, site: str) -> None:
    root = site.rpartition("/")[0]
    page.goto(root)
    page.wait_for_url(f"{root}/0.10.0/index.html")
    page.goto(f"{site}/reference/sql.html")
    page.get_by_role("button", name="Select version").focus()
    page.get_by_role("link", name="0.9.0").click()
    page.wait_for_url(f"{root}/0.9.0/")


def test_the_search_finds_a_variable(page: Page, site: str) -> None:
    page.goto(f"{site}/index.html")
    page.wait_for_load_state("networkidle")
    page.keyboard.press("Control+k")
    page.wait_for_function("document.activeElement?.shadowRoot?.activeElement?.tagName === 'INPUT'")
    page.keyboard.type("LEASE_TIMEOUT")
    page.locator("a[href*=changing-lease_timeout]", has_text="LEASE_TIMEOUT").first.wait_for()


def test_the_search_has_the_page_that_answers_among_its_first_three_results(page: Page, site: str) -> None:
    page.goto(f"{site}/index.html")
    worker = json.loads(page.locator("#__config").text_content() or "")["search"]
    results = dict(zip(QUESTIONS, page.evaluate(ASK, [worker, list(QUESTIONS)]), strict=True))
    assert {question: pages for question, pages in results.items() if QUESTIONS[question] not in pages} == {}
