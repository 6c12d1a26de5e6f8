"""What does nothing is said: variables that are none, former names, links of Kubernetes, addresses that none reads."""

from __future__ import annotations

import pytest

from relay.core.errors import ConfigError
from relay.settings.settings import Settings

QUIET = {"STORAGE_URL": "postgres://relay@db:5432/app", "PUBLISHER_TYPE": "stdout", "ENVIRONMENT": "development"}


def settings(**variables: str) -> Settings:
    return Settings.from_env({**QUIET, **variables})


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://log:hunter2@db/log", "begins with postgres://, clickhouse://"),
        ("postgres://log:hunter2@db:port/log", "the host or port is wrong"),
        ("clickhouse://log:hunter2@db:port/log", "percent-encode special characters"),
        ("aHVudGVyMmh1bnRlcjI6Ly9odW50ZXIy", "32 characters that begins with no scheme://; this looks like base64"),
    ],
)
def test_a_delivery_log_that_no_driver_takes_ends_the_start(url: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(DELIVERY_LOG_URL=url)
    assert str(caught.value).startswith("DELIVERY_LOG_URL: ")
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert url[:12] not in str(caught.value) or "://" in url


@pytest.mark.parametrize("secret", ["cG9zdGdyZXM6Ly91Omh1bnRlcjJAZGIvYXBw", "hunter2hunter2", "hunter2"])
def test_a_storage_url_that_is_a_bare_secret_is_shown_as_its_length(secret: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(STORAGE_URL=secret)
    text = str(caught.value)
    assert f"a value of {len(secret)} characters" in text
    assert not any(secret[at : at + 5] in text for at in range(len(secret) - 4))


def test_a_former_name_of_the_delivery_log_is_said() -> None:
    [warning] = settings(LOG_STORE_URL="postgres://log/log").warnings
    assert warning == "LOG_STORE_URL is no longer a variable and is ignored; set DELIVERY_LOG_URL instead"


@pytest.mark.parametrize("name", ["DATABASE_URL", "storage_url", "POSTGRES_URL"])
def test_a_variable_that_stands_in_the_place_of_the_needed_one_is_said(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(STORAGE_URL="", **{name: "postgres://app:hunter2@db/app"})
    assert str(caught.value).endswith(f"; {name} is set and is not read: set STORAGE_URL instead")
    assert "hunter2" not in str(caught.value)


def test_an_applications_own_url_beside_storage_url_is_no_matter() -> None:
    assert settings(DATABASE_URL="postgres://db/app").warnings == settings().warnings


@pytest.mark.parametrize(
    ("name", "value", "others"),
    [
        ("PUBLISHER_NAME", "main", {"DESTINATIONS_FILE": "destinations.toml"}),
        ("HTTP_SECRETS", "whsec_aHVudGVyMmh1bnRlcjI=", {"HTTP_ENDPOINTS_FILE": "e.toml", "PUBLISHER_TYPE": "http"}),
    ],
)
def test_a_variable_that_another_ones_file_takes_the_place_of_is_said(
    name: str, value: str, others: dict[str, str]
) -> None:
    needed = {"STORAGE_URL": "postgres://relay@db:5432/app", **others}
    [warning] = Settings.from_env({**needed, name: value}).warnings
    assert warning.startswith(f"{name} is set but not used: ")
    assert Settings.from_env(needed).warnings == ()


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        ("STORAGE_PASSWORD_COMMAND", {"STORAGE_URL": "postgres://relay:hunter2@localhost/app"}),
        ("STORAGE_PASSWORD_COMMAND", {"STORAGE_URL": "postgres://localhost/app?user=relay&password=hunter2"}),
        ("REDIS_PASSWORD_COMMAND", {"PUBLISHER_TYPE": "redis", "PUBLISHER_URL": "redis://u:hunter2@localhost"}),
    ],
)
def test_a_command_beside_a_password_that_wins_is_warned_about(command: str, variables: dict[str, str]) -> None:
    [warning] = settings(**variables, **{command: "vault read -field=hunter2"}).warnings
    assert warning.startswith(f"{command} is set but not used: ")
    assert "hunter2" not in warning
    without = {name: value.replace(":hunter2", "").partition("?")[0] for name, value in variables.items()}
    assert settings(**without, **{command: "vault"}).warnings == ()


@pytest.mark.parametrize(
    ("name", "value", "near"),
    [("batch_size", "7", "BATCH_SIZE"), ("Storage_Url", "x", "STORAGE_URL"), ("REDIS_PORT", "6379", None)],
)
def test_a_name_that_begins_as_ours_do_is_warned_about_in_any_case(name: str, value: str, near: str | None) -> None:
    [warning] = settings(**{name: value}).warnings
    assert warning.startswith(f"{name} is not a variable of the relay and is ignored")
    assert near is None or warning.endswith(f"did you mean {near}?")


def test_all_that_kubernetes_sets_for_a_service_is_no_operators() -> None:
    links = {
        "STORAGE_SERVICE_HOST": "10.96.0.17",
        "STORAGE_SERVICE_PORT": "5432",
        "STORAGE_SERVICE_PORT_SQL": "5432",
        "STORAGE_PORT": "tcp://10.96.0.17:5432",
        "STORAGE_PORT_5432_TCP": "tcp://10.96.0.17:5432",
        "STORAGE_PORT_5432_TCP_PROTO": "tcp",
        "STORAGE_PORT_5432_TCP_PORT": "5432",
        "STORAGE_PORT_5432_TCP_ADDR": "10.96.0.17",
    }
    assert settings(**links).warnings == settings().warnings


@pytest.mark.parametrize("name", ["CONSOLE_PORT", "SERVER_PORT"])
def test_a_service_link_with_the_name_of_a_variable_is_ignored_and_said(name: str) -> None:
    read = settings(**{name: "tcp://10.96.0.17:80"})
    [warning] = read.warnings
    assert warning.startswith(f"{name} is ignored: ")
    assert read.server_port == settings().server_port
