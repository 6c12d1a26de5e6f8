"""The page of the user's login, as a browser without scripts uses it: what it says for each way in, and its buttons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape

import httpx
import pytest

from relay.console.access import AccessRole
from relay.console.app import build_console
from relay.console.serve import VARIABLES
from relay.settings.settings import Settings
from tests.console.access.making import token
from tests.console.access.sample import Browser, bearer, served

STORAGE = {"STORAGE_URL": "postgres://u@127.0.0.1:1/d"}  # nothing listens: the page needs no database


@pytest.fixture(scope="module")
def console(files: dict[str, str]) -> Iterator[str]:
    """The URL of a console with tokens."""
    settings = Settings.from_env({**STORAGE, **files, "CONSOLE_LOGIN_LIFETIME": "3h"}, only=VARIABLES)
    with served(build_console(settings)) as url:
        yield url


@pytest.fixture
def visitor(console: str, client: httpx.Client) -> Browser:
    return Browser(console, client)


def facts(html: str) -> dict[str, str]:
    """The terms of the page and what they say."""
    pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html)
    return {term: " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split()) for term, text in pairs}


def buttons(html: str) -> list[str]:
    main = html.partition("<main")[2]
    return re.findall(r"<button.*?>(.*?)</button>", main)


@pytest.mark.parametrize("role", list(AccessRole))
def test_a_login_says_who_how_and_until_when(visitor: Browser, role: AccessRole) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    visitor.log_in(token=token(f"{role}-token"))
    after = datetime.now(UTC)

    page = visitor.send("GET", "/logins")

    assert page.status_code == 200
    assert f'<h2 id="you">{role}-token</h2>' in page.text
    said = facts(page.text)
    assert said["Role"].startswith(f"{role}: ")
    assert said["Logged in by"] == "a token"
    since, until = (datetime.fromisoformat(each) for each in re.findall(r'<time datetime="(.*?)">', page.text))
    assert before <= since <= after
    assert until - since == timedelta(hours=3)
    assert said["Until"].startswith(f"{until:%Y-%m-%d %H:%M:%S}")
    assert buttons(page.text) == ["Log out", "Log out everywhere"]


def test_a_request_that_proves_itself_has_no_login_to_end(visitor: Browser) -> None:
    visitor.log_in(token=token("admin-token"))

    page = visitor.send("GET", "/logins", headers=bearer("reader-token"))

    assert "carries a token" in facts(page.text)["Logged in by"]
    assert facts(page.text).keys() == {"Role", "Logged in by"}
    assert buttons(page.text) == []


def test_where_nothing_says_who_may_the_page_says_so(client: httpx.Client) -> None:
    with served(build_console(Settings.from_env(STORAGE, only=VARIABLES))) as url:
        page = Browser(url, client).send("GET", "/logins")

    assert facts(page.text)["Role"] == "admin: everything"
    assert "every user of this machine is admin" in facts(page.text)["Logged in by"]
    assert buttons(page.text) == []


def test_without_a_login_the_page_leads_to_the_login_and_back(visitor: Browser) -> None:
    answer = visitor.send("GET", "/logins")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/logins")

    assert visitor.log_in(next_path="/logins", token=token("reader-token")).headers["location"] == "/logins"


def pressed(browser: Browser, button: str) -> httpx.Response:
    """Send the page's form as the button of this text does; a browser adds the button's own field."""
    form = browser.send("GET", "/logins").text.partition("<main")[2]
    assert '<form method="post" action="/logout">' in form
    [attributes] = re.findall(rf"<button([^>]*)>{button}</button>", form)
    name = re.search(r'name="(\w+)" value="(\w+)"', attributes)
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]+)"', form))
    return browser.send("POST", "/logout", data=fields | ({name[1]: name[2]} if name else {}))


def test_log_out_ends_this_browser_and_no_other(console: str, client: httpx.Client) -> None:
    mine, other = Browser(console, client), Browser(console, client)
    for browser in (mine, other):
        browser.log_in(token=token("operator-token"))
    stolen = dict(mine.cookies)

    answer = pressed(mine, "Log out")

    assert (answer.status_code, answer.headers["location"], mine.login) == (303, "/login?ended", "")
    mine.cookies = stolen
    assert [browser.send("GET", "/logins").status_code for browser in (mine, other)] == [303, 200]


def test_log_out_everywhere_ends_the_name_and_no_other(console: str, client: httpx.Client) -> None:
    mine, same, another_name = (Browser(console, client) for _ in range(3))
    for browser in (mine, same):
        browser.log_in(token=token("admin-token"))
    another_name.log_in(token=token("reader-token"))
    cookies = dict(mine.cookies)

    assert pressed(mine, "Log out everywhere").status_code == 303

    mine.cookies = cookies
    statuses = [browser.send("GET", "/logins").status_code for browser in (mine, same, another_name)]
    assert statuses == [303, 303, 200]
    assert mine.log_in(token=token("admin-token")).status_code == 303, "the token is still right"
    assert mine.send("GET", "/logins").status_code == 200


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({}, {}),
        ({"csrf_token": "A" * 64}, {}),
        ({"csrf_token": "own"}, {"sec-fetch-site": "cross-site"}),
        ({"csrf_token": "own"}, {"sec-fetch-site": "same-site"}),
    ],
)
def test_no_other_site_logs_anybody_out(visitor: Browser, fields: dict[str, str], headers: dict[str, str]) -> None:
    visitor.log_in(token=token("reader-token"))
    if fields.get("csrf_token") == "own":
        fields = {"csrf_token": visitor.csrf("/logins")}

    refused = visitor.send("POST", "/logout", data=fields | {"everywhere": "1"}, headers=headers)

    assert refused.status_code == 403
    assert visitor.send("GET", "/logins").status_code == 200


def test_the_navigation_marks_one_page(visitor: Browser) -> None:
    visitor.log_in(token=token("reader-token"))

    marked = re.findall(r'<a href="([^"]+)"[^>]*aria-current="page"', visitor.send("GET", "/logins").text)

    assert marked == ["/logins"]
