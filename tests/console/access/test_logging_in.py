"""Logins over real HTTP: what begins one, what ends one, and how often one may be tried."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest

from relay.console.access.limit import PER_ADDRESS
from relay.console.access.logins import COOKIE
from tests.console.access.making import token, token_line, tokens_file
from tests.console.access.sample import Browser, bearer, sample_app, served, settings


def test_a_person_is_led_to_the_login_and_back(browser: Browser) -> None:
    answer = browser.send("GET", "/api/things?x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/api/things%3Fx%3D1")

    answer = browser.log_in("/api/things?x=1", token=token("operator-token"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/api/things?x=1")
    assert browser.send("GET", "/api/things").json()["name"] == "operator-token"
    assert browser.send("GET", "/login?next=/api/things").headers["location"] == "/api/things"


def test_htmx_is_told_to_load_the_login_page(browser: Browser) -> None:
    headers = {"hx-request": "true", "hx-current-url": f"{browser.url}/events?status=dead"}

    answer = browser.send("GET", "/api/things", headers=headers)

    assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/login?next=/events%3Fstatus%3Ddead")
    for address in ("http://[", "", "//evil.example//evil.example"):
        answer = browser.send("GET", "/api/things", headers={**headers, "hx-current-url": address})
        assert (answer.status_code, answer.headers["hx-redirect"].split("?")[0]) == (401, "/login")


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example", "\\\\evil", "javascript:1", ""],
)
def test_a_login_never_leads_to_another_host(browser: Browser, target: str) -> None:
    answer = browser.log_in(target, token=token("reader-token"))

    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_a_login_has_a_cookie_of_its_own_and_ends_the_one_before(browser: Browser) -> None:
    browser.csrf("/login")
    before = browser.login
    browser.log_in(token=token("reader-token"))
    first = browser.login
    assert before != first

    browser.cookies = {COOKIE: before}
    assert browser.send("POST", "/login", data={"csrf_token": "x"}).status_code == 403


def test_logging_out_ends_the_cookie_wherever_it_is_used(browser: Browser) -> None:
    browser.log_in(token=token("reader-token"))
    stolen = dict(browser.cookies)

    answer = browser.send("POST", "/logout", data={"csrf_token": browser.csrf()})

    assert (answer.status_code, answer.headers["location"], browser.login) == (303, "/login?ended", "")
    assert "You are logged out" in browser.send("GET", "/login?ended").text
    browser.cookies = stolen
    assert browser.send("GET", "/api/things").status_code == 303


def test_logging_out_everywhere_ends_the_other_browsers_of_the_name(url: str, client: httpx.Client) -> None:
    browsers = [Browser(url, client) for _ in range(3)]
    for browser, name in zip(browsers, ("admin-token", "admin-token", "reader-token"), strict=True):
        browser.log_in(token=token(name))

    browsers[0].send("POST", "/logout", data={"csrf_token": browsers[0].csrf(), "everywhere": "1"})

    assert [browser.send("GET", "/api/things").status_code for browser in browsers] == [303, 303, 200]


def test_a_wrong_login_says_so_and_shows_nothing_of_it(
    files: dict[str, str], client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    faults: list[dict[str, str]] = [{"token": "hunter2hunter2"}, {"token": token("hunter2hunter2")}, {}]
    with served(sample_app(settings(**files))) as url:
        answers = [Browser(url, client).log_in(**fields) for fields in faults]

    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert all("The token is wrong." in answer.text for answer in answers)
    assert "hunter2hunter2" not in "".join(answer.text for answer in answers) + caplog.text
    assert len([record for record in caplog.records if record.__dict__.get("action") == "login_refused"]) == 3


def tried(url: str, client: httpx.Client, **headers: str) -> int:
    """The status of a login by a wrong token."""
    browser = Browser(url, client)
    form = {"csrf_token": browser.csrf("/login"), "token": token("wrong")}
    return browser.send("POST", "/login", data=form, headers=headers).status_code


def test_logins_are_limited_and_no_header_of_a_client_gets_around_that(
    files: dict[str, str], client: httpx.Client
) -> None:
    forged = ("x-forwarded-for", "forwarded", "x-real-ip", "true-client-ip", "cf-connecting-ip")
    with served(sample_app(settings(**files))) as url:
        statuses = [
            tried(url, client, **dict.fromkeys(forged, f"10.0.0.{number}")) for number in range(PER_ADDRESS + 1)
        ]
        last = Browser(url, client).log_in(token=token("reader-token"))
        assert (last.status_code, 0 < int(last.headers["retry-after"]) <= 10) == (429, True)
        assert client.get(f"{url}/api/things", headers=bearer("reader-token")).status_code == 200
    assert statuses == [401] * PER_ADDRESS + [429]


def test_a_trusted_proxy_names_the_client(files: dict[str, str], client: httpx.Client) -> None:
    with served(sample_app(settings(**files, CONSOLE_TRUSTED_PROXIES="127.0.0.1, 10.0.0.0/8"))) as url:
        first = [
            tried(url, client, **{"x-forwarded-for": f"192.0.2.{number}, 198.51.100.1, 10.0.0.1"})
            for number in range(PER_ADDRESS + 1)
        ]
        assert first == [401] * PER_ADDRESS + [429]
        assert tried(url, client, **{"x-forwarded-for": "198.51.100.1, 198.51.100.2"}) == 401
        assert tried(url, client, **{"x-forwarded-for": "198.51.100.1, not-an-address, 10.0.0.1"}) == 401


def test_a_line_that_leaves_the_file_ends_its_logins(tmp_path: Path, client: httpx.Client) -> None:
    path = tokens_file(tmp_path)
    with served(sample_app(settings(CONSOLE_TOKENS_FILE=str(path)))) as url:
        browser = Browser(url, client)
        browser.log_in(token=token("admin-token"))
        assert browser.send("GET", "/api/things").status_code == 200
        fresh = path.with_suffix(".new")
        fresh.write_text(token_line("reader", "other"))
        fresh.replace(path)
        assert browser.send("GET", "/api/things").status_code == 303
        assert client.get(f"{url}/api/things", headers=bearer("admin-token")).status_code == 401


def test_a_changed_role_counts_at_once(tmp_path: Path, client: httpx.Client) -> None:
    path = tokens_file(tmp_path)
    with served(sample_app(settings(CONSOLE_TOKENS_FILE=str(path)))) as url:
        browser = Browser(url, client)
        browser.log_in(token=token("admin-token"))
        assert browser.send("GET", "/api/settings").status_code == 200
        path.write_text(token_line("reader", "admin-token"))
        assert browser.send("GET", "/api/settings").status_code == 403


def test_a_restart_with_the_same_secret_keeps_logins_and_another_secret_ends_them(
    files: dict[str, str], browser: Browser, client: httpx.Client
) -> None:
    browser.log_in(token=token("reader-token"))
    for secret, status in (("s" * 32, 200), ("t" * 32, 303)):
        with served(sample_app(settings(**{**files, "CONSOLE_SECRET": secret}))) as url:
            other = Browser(url, client)
            other.cookies = dict(browser.cookies)
            assert other.send("GET", "/api/things").status_code == status


def test_no_secret_is_logged_or_shown(
    files: dict[str, str], client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app = sample_app(settings(**files))
    with served(app) as url:
        browser = Browser(url, client)
        seen = [browser.log_in(token=token("admin-token")), client.get(f"{url}/fails", headers=bearer("admin-token"))]
        cookie = browser.login
    records = [record for record in caplog.records if not record.name.startswith("http")]  # the client's own
    shown = repr([(record.getMessage(), vars(record)) for record in records])
    assert "ZeroDivisionError" in shown
    shown += "".join(answer.text for answer in seen)
    for secret in (token("admin-token"), cookie, files["CONSOLE_SECRET"]):
        assert secret not in shown
