"""Changes by a browser: the CSRF token, the origin of the page, methods and bodies."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from relay.console.access.logins import COOKIE
from tests.console.access.making import token
from tests.console.access.sample import Browser, bearer


@pytest.mark.parametrize("fields", [{}, {"csrf_token": ""}, {"csrf_token": "x" * 64}])
def test_a_change_by_cookie_needs_the_csrf_token(app: FastAPI, browser: Browser, fields: dict[str, str]) -> None:
    browser.log_in(token=token("operator-token"))
    before = len(app.state.done)

    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = browser.send(method, "/api/things", data={**fields, "a": "b"})
        assert (answer.status_code, "load the page again" in answer.text) == (403, True)

    assert len(app.state.done) == before


def test_a_change_with_the_token_in_form_or_header_reaches_the_route_whole(browser: Browser) -> None:
    browser.log_in(token=token("operator-token"))
    csrf = browser.csrf()

    form = browser.send("POST", "/api/things", content=f"a=%C3%A4&csrf_token={csrf}", headers=FORM)
    script = browser.send("DELETE", "/api/things", json={"a": 1}, headers={"x-csrf-token": csrf})

    assert form.json() == {"body": f"a=%C3%A4&csrf_token={csrf}"}
    assert script.json() == {"body": '{"a":1}'}


FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_the_token_of_another_login_is_none(url: str, client: httpx.Client) -> None:
    one, other = Browser(url, client), Browser(url, client)
    one.log_in(token=token("operator-token"))
    other.log_in(token=token("operator-token"))

    assert one.send("POST", "/api/things", data={"csrf_token": other.csrf()}).status_code == 403
    assert one.send("POST", "/api/things", data={"csrf_token": one.csrf()}).status_code == 200


def test_a_token_in_json_or_in_the_address_does_not_count(browser: Browser) -> None:
    browser.log_in(token=token("operator-token"))
    csrf = browser.csrf()

    assert browser.send("POST", f"/api/things?csrf_token={csrf}").status_code == 403
    assert browser.send("POST", "/api/things", json={"csrf_token": csrf}).status_code == 403
    assert browser.send("POST", "/api/things", data={"csrf_token": [csrf, csrf]}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": ""},
        {"sec-fetch-site": "cross-site", "origin": "{url}"},
    ],
)
def test_another_site_changes_nothing_even_with_the_token(browser: Browser, headers: dict[str, str]) -> None:
    browser.log_in(token=token("operator-token"))
    sent = {name: value.format(url=browser.url) for name, value in headers.items()}

    answer = browser.send("POST", "/api/things", data={"csrf_token": browser.csrf()}, headers=sent)

    assert (answer.status_code, "another site" in answer.text) == (403, True)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://[", ""])
def test_a_browser_without_sec_fetch_site_is_known_by_its_origin(
    url: str, client: httpx.Client, browser: Browser, origin: str
) -> None:
    browser.log_in(token=token("operator-token"))
    headers = {"cookie": f"{COOKIE}={browser.login}", "x-csrf-token": browser.csrf()}

    assert client.post(f"{url}/api/things", headers={**headers, "origin": origin}).status_code == 403
    assert client.post(f"{url}/api/things", headers={**headers, "origin": url}).status_code == 200


def test_a_bearer_token_needs_no_csrf_token(url: str, client: httpx.Client) -> None:
    headers = {**bearer("operator-token"), "sec-fetch-site": "cross-site", "origin": "https://tool.example"}

    assert client.post(f"{url}/api/things", headers=headers).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "FOO", "post", "TRACE", "PROPFIND"])
def test_any_other_method_is_a_change(browser: Browser, method: str) -> None:
    browser.log_in(token=token("operator-token"))

    assert browser.send(method, "/api/things").status_code in (400, 403)


@pytest.mark.parametrize(
    "headers", [{"x-http-method-override": "DELETE"}, {"x-http-method": "DELETE"}, {"x-method-override": "DELETE"}]
)
def test_no_header_changes_the_method(app: FastAPI, browser: Browser, headers: dict[str, str]) -> None:
    browser.log_in(token=token("operator-token"))
    before = len(app.state.done)

    assert browser.send("GET", "/api/things?_method=DELETE", headers=headers).status_code == 200
    assert browser.send("HEAD", "/api/things", headers=headers).status_code == 405
    assert browser.send("OPTIONS", "/api/things", headers=headers).status_code == 405
    assert len(app.state.done) == before


def test_a_large_form_is_refused_before_it_is_read_whole(browser: Browser) -> None:
    browser.csrf("/login")

    answer = browser.send("POST", "/login", content=b"a" * 2**17, headers=FORM)
    assert answer.status_code == 413
    assert browser.send("POST", "/login", content="&".join("a" * 2000), headers=FORM).status_code == 400


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_of_any_kind_is_refused_before_it_is_read_whole(
    app: FastAPI, browser: Browser, client: httpx.Client, chunked: bool
) -> None:
    browser.log_in(token=token("operator-token"))
    before = len(app.state.done)
    large = b'"' + b"a" * 2**18
    content = iter([large[: 2**17], large[2**17 :]]) if chunked else large
    path, kind = "/api/things", {"content-type": "application/json"}

    assert client.post(f"{browser.url}{path}", content=content, headers=kind | bearer("admin-token")).status_code == 413
    assert browser.send("POST", path, content=large, headers=kind | {"x-csrf-token": browser.csrf()}).status_code == 413
    assert len(app.state.done) == before


def test_a_login_by_another_kind_of_body_is_refused(browser: Browser) -> None:
    csrf = browser.csrf("/login")

    answer = browser.send("POST", "/login", json={"token": "x"}, headers={"x-csrf-token": csrf})
    assert answer.status_code == 415


def test_two_cookies_of_the_name_are_none(browser: Browser) -> None:
    browser.log_in(token=token("admin-token"))
    pair = f"{COOKIE}={browser.login}"
    browser.cookies = {}

    assert browser.send("GET", "/api/things", headers={"cookie": f"a=b; {pair}"}).status_code == 200
    assert browser.send("GET", "/api/things", headers={"cookie": f"{pair}; {pair}"}).status_code == 303
    assert browser.send("GET", "/api/things", headers={"cookie": f"{COOKIE}=x; {pair}"}).status_code == 303


def test_without_a_cookie_the_login_says_what_is_missing(browser: Browser) -> None:
    csrf = browser.csrf("/login")
    browser.cookies = {}

    answer = browser.send("POST", "/login", data={"csrf_token": csrf, "token": token("admin-token")})

    assert (answer.status_code, "the browser sent no cookie" in answer.text) == (403, True)
