"""Secrets of the console that stand in files: the file is read again, so that no change of one needs a restart."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest

from relay.console.access.access_options import access_options
from relay.console.access.access_role import AccessRole, Identity
from relay.console.access.logins import Logins, Way
from tests.console.access.sample import sample_app, served
from tests.console.access.test_api_token import console_settings as settings
from tests.console.access.test_provider_server import console, logged_in
from tests.support.servers.oidc import CLIENT_SECRET

FIRST, SECOND = "the first secret, of many letters", "the second secret, as long as that"


def test_a_token_that_changes_in_its_file_counts_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "token"
    file.write_text(f"{FIRST}\n")
    with caplog.at_level(logging.WARNING), served(sample_app(settings(API_TOKEN_FILE=str(file)))) as url:
        assert statuses(url) == [200, 401]
        file.write_text(f"{SECOND}\n")
        assert statuses(url) == [401, 200]
        for unusable in ("", "short"):
            file.write_text(unusable)
            assert statuses(url) == [401, 200]
    said = [record.getMessage() for record in caplog.records if "API_TOKEN_FILE" in record.getMessage()]
    assert len(said) == 2, said
    assert SECOND not in caplog.text


def statuses(url: str) -> list[int]:
    sent = [{"authorization": f"Bearer {token}"} for token in (FIRST, SECOND)]
    return [httpx.get(f"{url}/api/things", headers=headers).status_code for headers in sent]


def test_another_signing_secret_in_its_file_ends_the_logins_of_before(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(FIRST)
    logins = Logins(access_options(settings(CONSOLE_SECRET_FILE=str(file))).secret, 100.0)
    login = logins.new(Identity("ada", AccessRole.ADMIN), Way.TOKEN, "mark")
    cookie, csrf = logins.seal(login), logins.csrf_token(login)
    assert logins.open(cookie) == login
    file.write_text(SECOND)
    assert logins.open(cookie) is None
    assert not logins.csrf_matches(login, csrf)
    assert logins.open(logins.seal(login)) == login
    file.unlink()
    assert logins.open(logins.seal(login)) == login


@pytest.mark.packages
@pytest.mark.process
def test_the_secret_of_the_provider_is_read_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "client"
    file.write_text("one of before")
    with console(CONSOLE_OIDC_CLIENT_SECRET="", CONSOLE_OIDC_CLIENT_SECRET_FILE=str(file)) as browser:
        assert logged_in(browser, "1").status_code == 502
        file.write_text(CLIENT_SECRET)
        assert logged_in(browser, "1").status_code == 303
