"""What the CONSOLE_* variables say about who may, and what they refuse before anything listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.console.access.access_options import AccessOptions, access_options
from relay.console.access.access_role import AccessRole
from relay.console.serve import VARIABLES
from relay.core.errors import ConfigError
from relay.settings.settings import Settings

NEEDED = {"STORAGE_URL": "postgres://u@h/d", "PUBLISHER_TYPE": "stdout"}
SECRET = "a secret that nobody may read in a message"
PROVIDER = {
    "CONSOLE_OIDC_ISSUER": "https://login.example.com",
    "CONSOLE_OIDC_CLIENT_ID": "console",
    "CONSOLE_OIDC_CLIENT_SECRET": SECRET,
}


def options(**variables: str) -> AccessOptions:
    return access_options(Settings.from_env({**NEEDED, **variables}, only=VARIABLES))


def refusal(**variables: str) -> str:
    with pytest.raises(ConfigError) as caught:
        options(**variables)
    return str(caught.value)


def test_without_any_variable_the_console_listens_on_loopback_for_everybody_of_this_machine() -> None:
    read = options()

    assert (read.listen.host, read.public, read.authenticates) == ("127.0.0.1", False, False)
    assert len(read.secret) == 32
    assert read.secret != options().secret


@pytest.mark.parametrize("address", [":8090", "8090", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "console:1", "128.0.0.1:1"])
def test_a_public_address_without_a_way_to_log_in_is_refused(address: str) -> None:
    message = refusal(CONSOLE_PORT=address)

    assert message.startswith("CONSOLE_PORT=")
    assert "Set CONSOLE_TOKENS_FILE or CONSOLE_OIDC_ISSUER, or listen on 127.0.0.1" in message
    assert options(CONSOLE_PORT=address, CONSOLE_TOKENS_FILE="tokens").public


@pytest.mark.parametrize("other", [{}, {"CONSOLE_TOKENS_FILE": "tokens"}, PROVIDER, {"API_TOKEN": "x" * 32}])
def test_a_console_that_passwords_guarded_does_not_start_without_them(other: dict[str, str]) -> None:
    message = refusal(CONSOLE_USERS_FILE="/etc/openoutbox/users", **other)

    assert message.startswith("CONSOLE_USERS_FILE is no longer a variable; create a token for each user")
    assert "CONSOLE_TOKENS_FILE" in message


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "localhost:1", "LOCALHOST:1"])
def test_a_loopback_address_needs_none(address: str) -> None:
    assert not options(CONSOLE_PORT=address).public


def test_every_problem_is_reported_at_once() -> None:
    message = refusal(CONSOLE_PORT=":1", CONSOLE_SECRET="short", CONSOLE_OIDC_ISSUER="https://login.example.com")

    assert [line.split()[0] for line in message.splitlines()] == [
        "CONSOLE_SECRET",
        "CONSOLE_OIDC_CLIENT_ID",
        "CONSOLE_URL",
    ]
    assert "short" not in message.replace("shorter", "")


def test_a_provider_and_its_roles() -> None:
    read = options(
        **PROVIDER, CONSOLE_OIDC_ROLES='{"/ops/a,b=c": "admin", "all": "reader"}', CONSOLE_OIDC_OTHER_ROLE="reader"
    )

    assert read.provider is not None
    assert read.provider.roles == {"/ops/a,b=c": AccessRole.ADMIN, "all": AccessRole.READER}
    assert read.provider.other_role is AccessRole.READER
    assert options(**PROVIDER).provider.other_role is None  # type: ignore[union-attr]


def test_a_provider_on_a_public_address_needs_the_url_of_the_console() -> None:
    assert "CONSOLE_URL is not set" in refusal(**PROVIDER, CONSOLE_PORT=":8090")
    assert options(**PROVIDER, CONSOLE_PORT=":8090", CONSOLE_URL="https://Console.example.com:443/").url == (
        "https://console.example.com"
    )


def test_the_scope_must_ask_for_an_id_token() -> None:
    assert "CONSOLE_OIDC_SCOPE='profile' must contain openid" in refusal(**PROVIDER, CONSOLE_OIDC_SCOPE="profile")


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("CONSOLE_URL", "https://h/path", "is not an address of a web server without a path"),
        ("CONSOLE_URL", "ftp://h", "is not an address of a web server without a path"),
        ("CONSOLE_URL", "console.example.com", "is not an address of a web server without a path"),
        ("CONSOLE_URL", "https://h:99999", "it is not a URL"),
        ("CONSOLE_URL", f"https://u:{SECRET}@h", "must not hold a user or password"),
        ("CONSOLE_OIDC_ISSUER", "http://login.example.com", "is not encrypted"),
        ("CONSOLE_OIDC_ISSUER", f"https://u:{SECRET}@h", "must not hold a user or password"),
        ("CONSOLE_OIDC_ROLES", '{"a": "root"}', "with the roles reader, operator, admin"),
        ("CONSOLE_OIDC_ROLES", '{"a": ["admin"]}', "with the roles reader, operator, admin"),
        ("CONSOLE_OIDC_ROLES", "{}", "is not a JSON object of values and roles"),
        ("CONSOLE_TRUSTED_PROXIES", "10.0.0.1/8", "is not a list of addresses"),
        ("CONSOLE_LOGIN_LIFETIME", "8", "is not a duration"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(variable: str, value: str, reason: str) -> None:
    message = refusal(**{variable: value})

    assert message.startswith(variable)
    assert reason in message
    assert SECRET not in message


def test_secrets_may_come_from_files(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f" {SECRET}\n")
    others = {name: value for name, value in PROVIDER.items() if name != "CONSOLE_OIDC_CLIENT_SECRET"}

    read = options(**others, CONSOLE_OIDC_CLIENT_SECRET_FILE=str(file), CONSOLE_SECRET_FILE=str(file))

    assert read.secret == SECRET.encode()
    assert read.provider is not None
    assert read.provider.client_secret == SECRET


def test_an_empty_file_of_a_secret_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(" \n")

    assert (
        refusal(CONSOLE_SECRET_FILE=str(file))
        == f"CONSOLE_SECRET_FILE: {str(file)!r} is empty; it must hold the secret"
    )


def test_no_secret_is_shown() -> None:
    read = options(**PROVIDER, CONSOLE_SECRET=SECRET)

    assert SECRET not in repr(read) + repr(Settings.from_env({**NEEDED, **PROVIDER, "CONSOLE_SECRET": SECRET}))
