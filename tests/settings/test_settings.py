"""The environment becomes settings, or one error that names everything that is wrong."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from relay.core.errors import ConfigError
from relay.postgres.sql import TableName
from relay.settings.address import Address
from relay.settings.settings import Settings

URL = "postgres://relay:s3cret@127.0.0.1:5432/app?sslmode=disable"
NEEDED = {"STORAGE_URL": URL}
SILENT = {**NEEDED, "ENVIRONMENT": "development"}
"""Without a broker, and so without a warning, only in development."""


def settings(**variables: str) -> Settings:
    return Settings.from_env({**SILENT, **variables})


def refusal(**variables: str) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(**variables)
    return str(caught.value)


def test_with_only_what_is_required_everything_else_has_its_default() -> None:
    read_settings = settings()

    assert read_settings.storage_url is not None
    assert read_settings.storage_url.get_secret_value() == URL
    assert read_settings.storage_table_name == TableName()
    assert read_settings.publisher_type == "stdout"
    assert read_settings.poll_interval == 0.5
    assert read_settings.lease_timeout == 180.0
    assert read_settings.max_in_flight == 800
    assert read_settings.batch_bytes == 64 * 2**20
    assert read_settings.retry_max_delay == 86_400.0
    assert read_settings.kafka_batch_size is None
    assert read_settings.server_port == Address("", 8080)
    assert read_settings.relay_id == socket.gethostname()
    assert read_settings.publisher_name == "stdout"
    assert read_settings.warnings == ()


def test_several_database_hosts_are_allowed() -> None:
    url = "postgresql://u:p%40w@h1:5432,h2/db?target_session_attrs=read-write"

    assert settings(STORAGE_URL=url).storage_url is not None


def test_parameters_of_another_driver_are_no_error() -> None:
    assert settings(STORAGE_URL="postgres://u:p?w#x@h/db?pool_max_conns=4").storage_url is not None


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        settings().batch_size = 3


def test_most_in_flight_follows_the_batch_size() -> None:
    assert settings(BATCH_SIZE="7").max_in_flight == 56
    assert settings(BATCH_SIZE="7", MAX_IN_FLIGHT="9").max_in_flight == 9


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (":8080", Address("", 8080)),
        ("8080", Address("", 8080)),
        ("127.0.0.1:8080", Address("127.0.0.1", 8080)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:8080", Address("::1", 8080)),
    ],
)
def test_addresses_to_listen_on(written: str, meant: Address) -> None:
    assert settings(SERVER_PORT=written).server_port == meant


def test_words_are_taken_in_any_case() -> None:
    read_settings = settings(PUBLISHER_TYPE="NULL", ENVIRONMENT="Development", KAFKA_COMPRESSION="ZSTD")

    assert (read_settings.publisher_type, read_settings.environment, read_settings.kafka_compression) == (
        "null",
        "development",
        "zstd",
    )


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("BATCH_SIZE", "0", "'0' is not a whole number from 1 to"),
        ("BATCH_SIZE", "ten", "'ten' is not a whole number"),
        ("BATCH_SIZE", "1.5", "'1.5' is not a whole number"),
        ("POLL_INTERVAL", "5", "'5' is not a duration; it has no unit: 5s is seconds; write for example 500ms"),
        ("POLL_INTERVAL", "0", "'0' is too short"),
        ("POLL_INTERVAL", "1ns", "'1ns' is too short; write at least 1ms"),
        ("LEASE_TIMEOUT", "9999999999999h", "'9999999999999h' is too long; write at most 8760h"),
        ("RETRY_MAX_DELAY", "8761h", "'8761h' is too long"),
        ("POLL_INTERVAL", "-5s", "'-5s' is not a duration"),
        ("RETRY_BASE_DELAY", "0s", "'0s' is too short"),
        ("RETRY_JITTER", "1.1", "'1.1' is not a number from 0 to 1"),
        ("PUBLISHER_RATE", "0", "'0' is not a number of events a second from 0.01 to 1,000,000"),
        ("PUBLISHER_RATE", "50/s", "'50/s' is not a number of events a second from 0.01 to 1,000,000"),
        ("RETRY_JITTER", "nan", "'nan' is not a number from 0 to 1"),
        ("BATCH_BYTES", "lots", "'lots' is not a size"),
        ("SERVER_PORT", ":65536", "write :8080, 127.0.0.1:8080 or [::1]:8080"),
        ("SERVER_PORT", "::1:8080", "write :8080, 127.0.0.1:8080 or [::1]:8080"),
        ("ENVIRONMENT", "prod", "'prod' is not allowed; write production or development"),
        (
            "PUBLISHER_TYPE",
            "rabbit",
            "write kafka or nats or redis or rabbitmq",
        ),
        (
            "ALLOWED_EVENT_TYPES",
            "orders.*,,b",
            "'orders.*,,b' has an empty pattern; write for example orders.*,user.signup",
        ),
        ("HTTP_PERMANENT_STATUSES", "400,503", "'400,503' is not a list of statuses from 400 to 499"),
        ("STORAGE_TYPE", "mysql", "write postgres"),
        ("STORAGE_TABLE_NAME", "a.b.c", "'a.b.c' is not a table name"),
        ("STORAGE_URL", "mysql://h/db", "'mysql://h/db': not a PostgreSQL URL"),
        ("STORAGE_URL", "postgres://h/db?sslmod=require", "libpq has no parameter sslmod"),
        ("STORAGE_URL", "postgres://h:54x2/db", "the host or port is wrong"),
        ("STORAGE_URL", "postgres://h/db?sslmode=full", "sslmode may be disable, allow"),
        ("KAFKA_ASYNC", "maybe", "write true or false"),
        ("DELIVERY_LOG_RECORD", "some", "write all or failed"),
        ("DELIVERY_LOG_SCHEMA", "a-b", "'a-b' is not a name; use letters, digits and _, a letter first, at most 63"),
        ("DELIVERY_LOG_PREFIX", "x" * 41, "at most 40"),
        ("DELIVERY_LOG_RETENTION_DAYS", "0", "is not a whole number from 1"),
        ("RELAY_ID", "\udcff", "is not UTF-8 text"),
        ("STORAGE_URL", "postgres://h/\udcff", "is not UTF-8 text"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(variable: str, value: str, said: str) -> None:
    message = refusal(**{variable: value})

    assert message.startswith(variable)
    assert said in message
    assert "\n" not in message


def test_all_problems_are_reported_at_once_and_none_causes_another() -> None:
    message = refusal(
        STORAGE_URL="",
        PUBLISHER_TYPE="kafka",
        BATCH_SIZE="0",
        RETRY_BASE_DELAY="2 hours",
    )

    assert sorted(line.split("=")[0].split(":")[0].split()[0] for line in message.splitlines()) == [
        "BATCH_SIZE",
        "PUBLISHER_URL",
        "RETRY_BASE_DELAY",
        "STORAGE_URL",
    ]


@pytest.mark.parametrize(
    "url",
    [
        "postgres://relay:hunter2@db:port/app",
        "postgres://relay:p@hunter2:x@db/app",
        "postgres://relay:hunter2@[db/app",
        "mysql://relay:hunter2@db/app",
        "postgres://db/app?password=hunter2&sslmod=x",
    ],
)
def test_no_error_shows_the_password_of_a_wrong_url(url: str) -> None:
    assert "hunter2" not in refusal(STORAGE_URL=url)


def test_secrets_are_not_in_the_text_of_settings() -> None:
    read_settings = settings(
        STORAGE_URL="postgres://relay:hunter2@db/app",
        PUBLISHER_TYPE="nats",
        PUBLISHER_URL="nats://hunter2@broker:4222",
        API_TOKEN="hunter2",
        DELIVERY_LOG_URL="postgres://log:hunter2@db/log",
        OTEL_EXPORTER_OTLP_HEADERS="authorization=hunter2",
    )

    assert "hunter2" not in repr(read_settings) + str(read_settings) + " ".join(read_settings.warnings)
    assert read_settings.otel == {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=hunter2"}


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"KAFKA_ASYNC": "true"}, "KAFKA_ASYNC=true is ignored"),
        ({"KAFKA_REQUIRED_ACKS": "one"}, "not idempotent"),
        ({"KAFKA_REQUIRED_ACKS": "none"}, "raised to one"),
        ({"MAX_IN_FLIGHT": "99"}, "MAX_IN_FLIGHT=99 is below BATCH_SIZE=100"),
        ({"RETRY_BASE_DELAY": "2h", "RETRY_MAX_DELAY": "1h"}, "every delay will be RETRY_MAX_DELAY"),
        ({"ORDERING_ON_DEAD": "block"}, "ORDERING_ON_DEAD=block has no effect"),
        (
            {"API_TOKEN": "t"},
            "API_TOKEN is set but not used by the relay, which does not serve the delivery log's API. Run relay-cli",
        ),
        ({"API_TOKEN_FILE": "/absent"}, "takes this token; for the relay, unset API_TOKEN_FILE"),
        (
            {"PUBLISHER_TYPE": "stdout", "PUBLISHER_URL": "kafka:9092"},
            "PUBLISHER_URL is set but not used: PUBLISHER_TYPE is stdout",
        ),
        ({"ENVIRONMENT": "production"}, "DELIVERED once its event is printed on standard output"),
        (
            {"PUBLISHER_TYPE": "nats", "PUBLISHER_URL": "nats://n", "LEASE_TIMEOUT": "5s"},
            "LEASE_TIMEOUT=5s is not longer than NATS_PUBLISH_TIMEOUT=5s",
        ),
        ({"KAFKA_BACTH_SIZE": "3"}, "did you mean KAFKA_BATCH_SIZE?"),
        ({"KAFKA_SASL_PASSWORD": "x"}, "KAFKA_SASL_PASSWORD is not a variable of the relay and is ignored"),
        ({"SHUTDOWN_TIMOUT": "3s"}, "did you mean SHUTDOWN_TIMEOUT?"),
    ],
)
def test_what_is_not_done_exactly_as_written_is_warned_about(variables: dict[str, str], said: str) -> None:
    (warning,) = settings(**variables).warnings

    assert said in warning


def test_what_is_done_as_written_is_not_warned_about() -> None:
    assert settings(DELIVERY_LOG_URL="postgres://log/log").warnings == ()


def test_the_values_in_effect_are_safe() -> None:
    read_settings = settings(KAFKA_ASYNC="true", KAFKA_REQUIRED_ACKS="none")

    assert not read_settings.kafka_async
    assert read_settings.kafka_required_acks == "one"


@pytest.mark.parametrize("name", ["REDIS_SERVICE_HOST", "NATS_PORT_4222_TCP_ADDR", "KAFKA_PORT", "PATH", "HOSTNAME"])
def test_variables_of_the_surroundings_are_not_ours(name: str) -> None:
    assert settings(**{name: "tcp://10.96.0.17:6379" if name == "KAFKA_PORT" else "x"}).warnings == ()


def test_a_tool_reads_only_the_variables_it_names() -> None:
    read_settings = Settings.from_env(
        {"PUBLISHER_TYPE": "nonsense", "BATCH_SIZE": "-1", "STORAGE_URL": "postgres://old/db"},
        overrides={"STORAGE_URL": URL},
        only={"STORAGE_URL", "STORAGE_TABLE_NAME"},
    )

    assert read_settings.storage_url is not None
    assert read_settings.storage_url.get_secret_value() == URL
    assert read_settings.batch_size == 100


def test_a_line_break_at_the_end_of_a_value_is_left_out() -> None:
    """A Secret that was made from a file ends with one, and a database of that name does not exist."""
    read_settings = settings(STORAGE_URL="postgres://relay@db:5432/app\n", RELAY_ID="relay-1\r\n", BATCH_SIZE="\n")
    assert read_settings.storage_url is not None
    assert read_settings.storage_url.get_secret_value() == "postgres://relay@db:5432/app"
    assert (read_settings.relay_id, read_settings.batch_size) == ("relay-1", settings().batch_size)


def test_a_url_may_come_from_a_file_as_mounted_secrets_do(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text(f"{URL}\n")

    read_settings = Settings.from_env({"STORAGE_URL_FILE": str(secret), "PUBLISHER_TYPE": "stdout"})

    assert read_settings.storage_url is not None
    assert read_settings.storage_url.get_secret_value() == URL
    assert read_settings.warnings == ()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file or directory"),
        (" \n", "is empty; it must hold the URL"),
        ("postgres://u:hunter2@h/d\npostgres://u:hunter2@h/d\n", "holds more than one line"),
        ("mysql://u:hunter2@h/d", "STORAGE_URL: 'mysql://u:***@h/d': not a PostgreSQL URL"),
    ],
)
def test_a_file_that_holds_no_url_is_reported_once_and_without_the_secret(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    secret = tmp_path / "url"
    if content is not None:
        secret.write_text(content)

    with pytest.raises(ConfigError) as caught:
        Settings.from_env({"STORAGE_URL_FILE": str(secret)})

    assert reason in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_url_and_its_file_in_one_place_is_an_error(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("nats://b")

    message = refusal(PUBLISHER_TYPE="nats", PUBLISHER_URL="nats://a", PUBLISHER_URL_FILE=str(secret))

    assert "PUBLISHER_URL and PUBLISHER_URL_FILE are both set; unset one of them" in message


def test_the_place_that_wins_wins_with_either_form(tmp_path: Path) -> None:
    secret, dotenv = tmp_path / "url", tmp_path / ".env"
    secret.write_text("postgres://by-file/d")
    dotenv.write_text(f"STORAGE_URL={URL}\n")
    option = {"STORAGE_URL": "postgres://by-option/d"}
    environ = {"STORAGE_URL_FILE": str(secret)}

    by_shell = Settings.from_env(environ, dotenv)
    by_option = Settings.from_env(environ, dotenv, overrides=option, only={"STORAGE_URL"})

    assert by_shell.storage_url is not None
    assert by_shell.storage_url.get_secret_value() == "postgres://by-file/d"
    assert by_option.storage_url is not None
    assert by_option.storage_url.get_secret_value() == "postgres://by-option/d"


@pytest.fixture
def dotenv(tmp_path: Path) -> Path:
    return tmp_path / ".env"


def test_a_shell_variable_wins_over_the_file_and_an_empty_one_counts_as_unset(dotenv: Path) -> None:
    dotenv.write_text(f"STORAGE_URL={URL}\nBATCH_SIZE=5\nexport REAP_BATCH_SIZE='6' # six\nRETRY_MAX_ATTEMPTS=\n")

    read_settings = Settings.from_env({"BATCH_SIZE": "7", "REAP_BATCH_SIZE": ""}, dotenv)

    assert (read_settings.batch_size, read_settings.reap_batch_size, read_settings.retry_max_attempts) == (7, 6, 25)


def test_the_file_is_read_against_the_given_environment(dotenv: Path) -> None:
    dotenv.write_text("NAME=app\nSTORAGE_URL=postgres://${USER_}:${PW:-none}@db/${NAME}\n")

    read_settings = Settings.from_env({"USER_": "relay"}, dotenv)

    assert read_settings.storage_url is not None
    assert read_settings.storage_url.get_secret_value() == "postgres://relay:none@db/app"


def test_an_absent_file_is_fine_and_a_broken_one_is_reported(dotenv: Path) -> None:
    assert Settings.from_env(NEEDED, dotenv).batch_size == 100
    dotenv.write_text("BATCH_SIZE=1\n'oops\n")

    with pytest.raises(ConfigError, match="line 2 is not NAME=value"):
        Settings.from_env(NEEDED, dotenv)


def test_the_process_environment_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STORAGE_URL", URL)
    (tmp_path / ".env").write_text("RELAY_ID=from-file\n")

    assert Settings.from_process().relay_id == "from-file"
