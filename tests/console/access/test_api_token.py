"""API_TOKEN: a reader of the API and of nothing else, and what it means for the pages and for a public address."""

from __future__ import annotations

import hmac
import logging
from pathlib import Path

import httpx
import pytest

from relay.console.access.access_options import AccessOptions, access_options
from relay.console.access.credentials import ApiToken
from relay.console.serve import VARIABLES
from relay.core.errors import ConfigError
from relay.settings.settings import Settings
from relay.settings.shown import settings_json
from relay.settings.variables import NAMES
from tests.console.access.making import token, token_line, tokens_file
from tests.console.access.sample import Browser, bearer, sample_app, served, settings
from tests.support.waiting import wait_until

TOKEN = "the token of every program that reads the API"
SENT = {"authorization": f"Bearer {TOKEN}"}


def console_settings(**variables: str) -> Settings:
    return Settings.from_env({"STORAGE_URL": "postgres://u@h/d", **variables}, only=VARIABLES)


def options(**variables: str) -> AccessOptions:
    return access_options(console_settings(**variables))


def test_it_reads_the_api_and_changes_nothing() -> None:
    with served(sample_app(settings_with())) as url:
        read = httpx.get(f"{url}/api/things", headers=SENT)
        refused = {method: httpx.request(method, f"{url}/api/things", headers=SENT) for method in ("POST", "DELETE")}
        admin_only = httpx.get(f"{url}/api/settings", headers=SENT)

    assert (read.status_code, read.json()) == (200, {"name": "API_TOKEN", "role": "reader"})
    assert {answer.status_code for answer in (*refused.values(), admin_only)} == {403}


def settings_with(**variables: str) -> Settings:
    """Settings of the console with the token."""
    return console_settings(API_TOKEN=TOKEN, **variables)


@pytest.mark.parametrize("path", ["/", "/stream", "/logout", "/api", "/apix/things", "//api/things", "/absent"])
def test_it_admits_to_no_other_path(path: str) -> None:
    with served(sample_app(settings_with())) as url:
        assert httpx.request("POST" if path == "/logout" else "GET", url + path, headers=SENT).status_code == 401


@pytest.mark.parametrize(
    "sent",
    ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN.upper()}", f"Basic {TOKEN}"],
)
def test_any_other_token_is_refused_and_so_is_none(sent: str) -> None:
    with served(sample_app(settings_with())) as url:
        answers = [httpx.get(f"{url}/api/things", headers=headers) for headers in ({"authorization": sent}, {})]

    assert [answer.status_code for answer in answers] == [401, 401]
    assert TOKEN not in "".join(answer.text + str(answer.headers) for answer in answers)


def test_a_token_of_any_letters_is_compared_by_its_bytes() -> None:
    strange = "schlüssel 鍵 " * 4
    with served(sample_app(console_settings(API_TOKEN=strange))) as url:
        header = b"Bearer " + strange.strip().encode()
        assert httpx.get(f"{url}/api/things", headers=[(b"authorization", header)]).status_code == 200
        assert httpx.get(f"{url}/api/things", headers=[(b"authorization", header[:-1])]).status_code == 401


def test_it_is_compared_in_constant_time_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    known = ApiToken(TOKEN)

    assert [known.matches(sent) for sent in ("", TOKEN[0], TOKEN, TOKEN * 2)] == [False, False, True, False]
    assert compared == [(32, 32)] * 4
    assert TOKEN not in repr(vars(known))


def test_a_token_of_the_file_keeps_its_role_beside_it(tmp_path: Path) -> None:
    path = tokens_file(tmp_path)
    with served(sample_app(settings_with(CONSOLE_TOKENS_FILE=str(path)))) as url:
        roles = [httpx.get(f"{url}/api/things", headers=sent).json()["role"] for sent in (SENT, bearer("admin-token"))]

    assert roles == ["reader", "admin"]


def test_the_same_token_in_both_has_the_role_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(token_line("operator", "both"))
    with served(sample_app(console_settings(API_TOKEN=token("both"), CONSOLE_TOKENS_FILE=str(path)))) as url:
        assert httpx.get(f"{url}/api/things", headers=bearer("both")).json() == {"name": "both", "role": "operator"}


def test_alone_it_closes_the_pages_to_everybody(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), served(sample_app(settings_with())) as url, httpx.Client() as client:
        browser = Browser(url, client)
        page = browser.send("GET", "/")
        login = browser.send("GET", "/login")

    assert (page.status_code, page.headers["location"]) == (303, "/login")
    assert "This console has no way to log in" in login.text
    assert "<form" not in login.text
    (warning,) = [record for record in caplog.records if getattr(record, "action", "") == "access_api_only"]
    assert "the pages have no way to log in" in warning.getMessage()


def test_where_people_log_in_the_login_page_does_not_take_it(tmp_path: Path) -> None:
    variables = settings_with(CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path)))
    with served(sample_app(variables)) as url, httpx.Client() as client:
        browser = Browser(url, client)
        assert "no way to log in" not in browser.send("GET", "/login").text
        assert browser.log_in(token=TOKEN).status_code == 401
        assert browser.log_in(token=token("reader-token")).status_code == 303


def test_it_opens_a_public_address_when_it_cannot_be_guessed() -> None:
    read = options(API_TOKEN=TOKEN, CONSOLE_PORT=":8090")

    assert (read.public, read.authenticates, read.admits_people) == (True, True, False)


@pytest.mark.parametrize("short", ["t", "x" * 31, " " + "x" * 31 + " "])
def test_a_short_one_is_for_this_machine_alone(short: str) -> None:
    with pytest.raises(ConfigError, match="API_TOKEN is shorter than 32 characters") as caught:
        options(API_TOKEN=short, CONSOLE_PORT=":8090")

    assert short.strip() * 2 not in str(caught.value)
    assert options(API_TOKEN=short).api_token == short.strip()


def test_blanks_are_no_token() -> None:
    with pytest.raises(ConfigError, match="API_TOKEN is blank"):
        options(API_TOKEN="  ")


def test_it_comes_from_a_file_for_the_console_and_the_relay_leaves_that_closed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert options(API_TOKEN_FILE=str(file)).api_token == TOKEN

    absent = str(tmp_path / "absent")
    files = dict.fromkeys(("API_TOKEN_FILE", "CONSOLE_SECRET_FILE", "CONSOLE_OIDC_CLIENT_SECRET_FILE"), absent)
    for relay in (settings(**files), Settings.from_env({"STORAGE_URL": "postgres://u@h/d", **files}, only=NAMES)):
        assert (relay.api_token, relay.console_secret, relay.console_oidc_client_secret) == (None, None, None)
    for name in files:
        with pytest.raises(ConfigError, match=f"{name}: '{absent}' cannot be read: No such file or directory"):
            options(**{name: absent})


def test_two_sources_of_it_are_a_mistake_of_the_console_and_stop_no_relay(tmp_path: Path) -> None:
    both = {"API_TOKEN": TOKEN, "API_TOKEN_FILE": str(tmp_path / "absent")}

    with pytest.raises(ConfigError, match="API_TOKEN and API_TOKEN_FILE are both set"):
        options(**both)
    assert [warning.split()[0] for warning in settings(**both).warnings] == ["API_TOKEN", "API_TOKEN_FILE"]
    assert "API_TOKEN" not in "".join(console_settings(API_TOKEN=TOKEN).warnings)


def test_no_text_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        read = settings_with()
        app = sample_app(read)
        with served(app) as url:
            httpx.get(f"{url}/api/things", headers=SENT)
            httpx.get(f"{url}/api/things", headers={"authorization": f"Bearer {TOKEN}x"})
            wait_until(lambda: "a login by token" in caplog.text, what="the log line of a wrong token")

    shown = repr(read) + repr(access_options(read)) + settings_json(read) + "".join(map(repr, app.user_middleware))
    assert TOKEN not in shown + caplog.text
