"""Every page on a phone and on a desk, light and dark: for screen readers, for the keyboard, and within the width.

And for each role: which pages offer a change, and which show what an event holds.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect

from relay.console.access import AccessRole
from tests.console.access.making import token
from tests.console.scene import Scene, pages_of, scene
from tests.support.console import watched

pytestmark = pytest.mark.xdist_group("every page")

_MOST_STOPS = 400
_PHONE, _TABLET, _DESK = 360, 800, 1400
"""Widths. Axe looks at the first and the last: no rule of it depends on one between them alone."""
_VIOLATIONS = """async () => {
    const { violations } = await axe.run({ resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => [id, nodes[0].html.slice(0, 200)]);
}"""
_WATCH = """() => {
    window.focused = new Set();
    window.invisible = [];
    addEventListener("focusin", ({ target }) => {
        focused.add(target);
        if (getComputedStyle(target).outlineStyle === "none") invisible.push(target.outerHTML.slice(0, 200));
    });
}"""
"""Notes what gets the focus, and what of it shows no outline."""
_MISSED = """() => {
    const controls = "a[href], button, input:not([type=hidden]), select, [tabindex='0']";
    return [...document.querySelectorAll(controls)].filter((one) => !focused.has(one)).map((one) => one.outerHTML);
}"""
"""The controls that never had the focus."""
_CHANGE = "main form[method=post]:not([action='/logout']), main a[href^='/changes/new'], main a[href^='/types/pause']"
_READ = """([html, selector]) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    return [page.querySelectorAll(selector).length, page.querySelector("main").textContent];
}"""
"""How many elements of a kind a page has, and the text of its main part."""
_FORMS = {"replay", "bury", "type-pause"}
"""Pages that are a form for a change and nothing else."""
_CHANGING = _FORMS | {"overview", "search", "event", "event-waiting", "dead", "types", "fleet"}
"""Pages that offer a change to those who may make one."""
_CONTENT = {
    "event": "A-",
    "event-waiting": "A-",
    "log-event": "42.50",
    "store-stream": "the body",
    "log-attempt": "offset",
}
"""What is hidden from readers: a part of a payload, an event's body, or a broker's response."""


@pytest.fixture(scope="module")
def shown(postgres: str) -> Iterator[Scene]:
    """One outbox with trouble for all tests here."""
    with scene(postgres, events=1000, ugly=True) as one:
        yield one


@pytest.fixture(scope="module")
def addresses(shown: Scene) -> dict[str, str]:
    """The addresses of all pages, by name."""
    pages = {name: shown.console + path for name, path in pages_of(shown.outbox).items()}
    return pages | {"login": f"{shown.guarded}/login"}


def test_every_page_fits_and_is_for_screen_readers_and_the_keyboard(
    addresses: dict[str, str], browser: Browser
) -> None:
    # Without transitions: axe would see the colours between the two schemes.
    page = browser.new_page(color_scheme="dark", viewport=_size(_PHONE), reduced_motion="reduce")
    page.add_init_script(Axe().axe_script)
    complaints = watched(page)
    for name, address in addresses.items():
        page.goto(address)  # once for all of it: to load a page takes longer than most of what is looked at
        assert page.evaluate(_VIOLATIONS) == [], (name, "dark")
        page.emulate_media(color_scheme="light")
        for width in (_PHONE, _TABLET, _DESK):
            page.set_viewport_size(_size(width))
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
        assert page.evaluate(_VIOLATIONS) == [], (name, "light")
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        assert press_tab(page) == ([], []), name
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size(_size(_PHONE))
    expected = ("axe", "404")  # the policy refuses the styles that axe sets; one of the pages says that it has no event
    assert [each for each in complaints if not any(words in each for words in expected)] == []
    page.close()


def press_tab(page: Page) -> tuple[list[str], list[str]]:
    """The controls that Tab does not reach, and those that show no outline when they have the focus."""
    page.evaluate(_WATCH)
    for stop in range(1, _MOST_STOPS + 1):
        page.keyboard.down("Tab")  # as a key that is held: each step is one event, not two
        if stop % 20 == 0 and not page.evaluate(_MISSED):
            break
    return page.evaluate(_MISSED), page.evaluate("invisible")


def _size(width: int) -> ViewportSize:
    return {"width": width, "height": 900}


@pytest.mark.parametrize("role", AccessRole, ids=str)
def test_each_role_logs_in_and_finds_on_each_page_what_it_may(shown: Scene, browser: Browser, role: AccessRole) -> None:
    page = browser.new_page()
    page.goto(f"{shown.guarded}/")
    page.get_by_label("Token").fill(token(f"{role}-token"))
    page.get_by_role("button", name="Log in with the token").click()
    expect(page.locator(".who")).to_contain_text(f"{role}-token, {role}")
    statuses, changing, content = {}, set(), set()
    for name, path in pages_of(shown.outbox).items():
        answer = page.request.get(shown.guarded + path)  # not shown: that is half a second of Chromium for each page
        statuses[name] = answer.status
        changes, text = page.evaluate(_READ, [answer.text(), _CHANGE])
        if changes:
            changing.add(name)
        if name in _CONTENT and _CONTENT[name] in text:
            content.add(name)
    page.close()
    reads = role is AccessRole.READER
    deletes = {"prune"} if role is AccessRole.ADMIN else set()
    refused = (_FORMS if reads else set()) | ({"prune"} - deletes)
    assert {name for name, status in statuses.items() if status == 403} == refused
    assert {name for name, status in statuses.items() if status not in {200, 403}} == {"error"}
    assert (changing, content) == ((set(), set()) if reads else (_CHANGING | deletes, set(_CONTENT)))
