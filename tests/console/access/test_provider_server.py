"""Logins at a real OpenID Connect provider, over real HTTP, with a client that does what a browser does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest

from relay.console.access.provider_routes import COOKIE
from relay.localservers.process import free_port
from tests.console.access.sample import Browser, sample_app, served
from tests.console.access.test_api_token import console_settings
from tests.support.servers.oidc import CLIENT_ID, CLIENT_SECRET, OidcProvider

pytestmark = [pytest.mark.packages, pytest.mark.process]

USERS: dict[str, Any] = {
    "1": {"preferred_username": "ada", "roles": ["other", "operator", "admin"], "email": "ada@example.com"},
    "2": {"preferred_username": "bob", "roles": ["other"]},
    "3": {"preferred_username": "eve", "roles": "reader"},
    "4": {"preferred_username": "kim", "realm_access": {"roles": ["/ops"]}},
}


@contextmanager
def console(*, claims_in_token: bool = True, **variables: str) -> Iterator[Browser]:
    """A browser before a console that logs in at a provider of this test."""
    port = free_port()
    with OidcProvider(f"http://127.0.0.1:{port}/oidc/callback", USERS, claims_in_token=claims_in_token) as provider:
        known = {"CONSOLE_OIDC_CLIENT_ID": CLIENT_ID, "CONSOLE_OIDC_CLIENT_SECRET": CLIENT_SECRET}
        read = console_settings(CONSOLE_OIDC_ISSUER=provider.url, **{**known, **variables})
        limits = httpx.Limits(max_keepalive_connections=0)
        with served(sample_app(read), port) as url, httpx.Client(timeout=30, limits=limits) as client:
            yield Browser(url, client)


def at_provider(start: str, user: str) -> str:
    """Log in with the pages of the provider; the address that it sends the browser back to."""
    with httpx.Client(timeout=30) as client:
        url = start
        for _ in range(10):
            answer = client.get(url)
            while answer.is_redirect:
                url = urljoin(str(answer.url), answer.headers["location"])
                if "/oidc/callback" in url:
                    return url
                answer = client.get(url)
            action = re.search(r'action="([^"]+)"', answer.text)
            prompt = re.search(r'name="prompt" value="([^"]+)"', answer.text)
            assert action is not None, answer.text
            assert prompt is not None, answer.text
            form = {"prompt": prompt[1], "login": user, "password": "any"}
            sent = client.post(urljoin(str(answer.url), action[1]), data=form)
            url = urljoin(str(sent.url), sent.headers["location"])
            if "/oidc/callback" in url:
                return url
    raise AssertionError("the provider did not send the browser back")


def logged_in(browser: Browser, user: str, target: str = "/") -> httpx.Response:
    start = browser.send("GET", f"/oidc/login?next={target}")
    assert start.status_code == 303
    back = urlsplit(at_provider(start.headers["location"], user))
    return browser.send("GET", f"{back.path}?{back.query}", headers={"sec-fetch-site": "cross-site"})


def test_a_user_comes_back_with_the_highest_role_and_the_journey_is_bound_to_the_browser() -> None:
    with console() as browser:
        assert 'href="/oidc/login"' in browser.send("GET", "/login").text
        start = browser.send("GET", "/oidc/login?next=/api/things")
        sent = {name: values[0] for name, values in parse_qs(urlsplit(start.headers["location"]).query).items()}
        assert sent["code_challenge_method"] == "S256"
        assert {"state", "nonce", "code_challenge"} <= sent.keys()
        back = urlsplit(at_provider(start.headers["location"], "1"))
        callback = f"{back.path}?{back.query}"

        other = Browser(browser.url, browser.client)
        assert other.send("GET", callback).status_code == 400, "another browser may not use the code"

        answer = browser.send("GET", callback)
        assert (answer.status_code, answer.headers["location"]) == (303, "/api/things")
        assert browser.send("GET", "/api/things").json() == {"name": "ada", "role": "admin"}
        assert COOKIE not in browser.cookies
        assert browser.send("GET", callback).status_code == 400, "a code is used once"

        answer = browser.send("POST", "/logout", data={"csrf_token": browser.csrf()})
        assert "/oidc/logout" in browser.send("GET", answer.headers["location"]).text
        assert "/session/end?" in browser.send("GET", "/oidc/logout").headers["location"]
        assert browser.send("GET", "/api/things").status_code == 303


def test_a_user_without_a_role_is_refused_unless_the_settings_say_otherwise() -> None:
    with console() as browser:
        answer = logged_in(browser, "2")
        assert (answer.status_code, "You have no role" in answer.text) == (403, True)
        assert browser.send("GET", "/api/things").status_code == 303
        assert logged_in(browser, "3").status_code == 303
        assert browser.send("GET", "/api/things").json() == {"name": "eve", "role": "reader"}


def test_claims_may_be_at_the_userinfo_endpoint_and_in_objects() -> None:
    roles = {"CONSOLE_OIDC_ROLES_CLAIM": "realm_access.roles", "CONSOLE_OIDC_ROLES": '{"/ops": "operator"}'}
    with console(claims_in_token=False, CONSOLE_OIDC_OTHER_ROLE="reader", **roles) as browser:
        assert logged_in(browser, "4").status_code == 303
        assert browser.send("GET", "/api/things").json() == {"name": "kim", "role": "operator"}
        browser.cookies = {}
        assert logged_in(browser, "2").status_code == 303
        assert browser.send("GET", "/api/things").json() == {"name": "bob", "role": "reader"}
