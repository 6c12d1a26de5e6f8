"""Every page on a phone and on a desk, light and dark: for screen readers, for the keyboard, and within the width.

And for each role: which pages offer a change, and which show what an event holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from relay.console.access import AccessRole
from tests.console.access.making import token
from tests.console.scene import Scene, pages_of, scene
from tests.support.console import watched

pytestmark = pytest.mark.xdist_group("every page")

_MOST_STOPS = 400
_TABLET = 800
"""A width between the two that axe looks at: there a page has to fit, and no rule of axe depends on it alone."""
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


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 360)])
def test_every_page_is_for_screen_readers_and_fits(
    addresses: dict[str, str], browser: Browser, scheme: Literal["light", "dark"], width: int
) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    complaints = watched(page)
    for name, address in addresses.items():
        page.goto(address)
        violations = [(each["id"], each["nodes"][0]["html"][:200]) for each in Axe().run(page).response["violations"]]
        assert violations == [], (name, scheme)
        for each in (width, _TABLET):
            page.set_viewport_size({"width": each, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= each, (name, each)
        page.set_viewport_size({"width": width, "height": 900})
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expected = ("axe", "404")  # the policy refuses the styles that axe sets; one of the pages says that it has no event
    assert [each for each in complaints if not any(words in each for words in expected)] == []
    page.close()


def test_every_control_of_every_page_is_reached_by_the_keyboard(addresses: dict[str, str], browser: Browser) -> None:
    page = browser.new_page()
    for name, address in addresses.items():
        page.goto(address)
        page.evaluate(_WATCH)
        for stop in range(1, _MOST_STOPS + 1):
            page.keyboard.down("Tab")  # as a key that is held: each step is one event, not two
            if stop % 20 == 0 and not page.evaluate(_MISSED):
                break
        assert (page.evaluate(_MISSED), page.evaluate("invisible")) == ([], []), name
    page.close()


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
