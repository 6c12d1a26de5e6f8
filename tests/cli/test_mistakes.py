"""Mistakes of operators: each gets its exit code, an answer that says what to do, and nothing that misleads.

Those that need a server are in ``test_mistakes_with_servers.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.mistakes import DOWN, LOG, STORAGE, Mistake, answer, check
from tests.cli.running import run_program

REFUSED = (
    "port 1 failed: Connection refused",
    "check STORAGE_URL: no server listens on this host and port",
    "relay-cli check",
)
HELP = "--help shows what is allowed"
EVENT = "0190b0a0-0000-7000-8000-000000000001"
METRICS = "log metrics attempts --start 2026-01-01 --end 2026-01-02"

SETTINGS = [
    Mistake("stats", {}, 2, ("STORAGE_URL is not set", "postgres://host:5432/database?user=name"), ("***",)),
    Mistake("log events", {}, 2, ("DELIVERY_LOG_URL is not set", "--delivery-log-url")),
    Mistake("stats", {"DATABASE_URL": DOWN}, 2, ("DATABASE_URL is set and is not read: set STORAGE_URL instead",)),
    Mistake("check", {"storage_url": DOWN}, 2, ("storage_url is set and is not read: set STORAGE_URL instead",)),
    Mistake("log events", {"LOG_STORE_URL": DOWN}, 2, ("LOG_STORE_URL is set and is not read: set DELIVERY_LOG_URL",)),
    Mistake(
        "check --for deliverylog",
        STORAGE | {"LOG_STORE_URL": DOWN},
        2,
        ("DELIVERY_LOG_URL is not set", "LOG_STORE_URL is set and is not read: set DELIVERY_LOG_URL instead"),
    ),
    Mistake("stats", {"STORAGE_URL": "mysql://u:hunter2@h/d"}, 2, ("not a PostgreSQL URL", "write postgres://")),
    Mistake("stats", {"STORAGE_URL": "localhost:5432/orders"}, 2, ("not a PostgreSQL URL", "write postgres://")),
    Mistake("stats --storage-url redis://h", {}, 2, ("not a PostgreSQL URL",)),
    Mistake("stats", {"STORAGE_URL": "postgres://app:hun@ter2@h/d"}, 2, ("percent-encode", "@ is %40"), ("ter2",)),
    Mistake("stats", {"STORAGE_URL": "postgres://h/d?frob=1"}, 2, ("libpq has no parameter frob; remove it",)),
    Mistake("stats", {"STORAGE_URL": "postgres://h:http/d"}, 2, ("the host or port is wrong",)),
    Mistake("stats", {"STORAGE_URL": "postgres://h:99999/d"}, 2, ("the host or port is wrong",)),
    Mistake("stats", {"STORAGE_URL": "postgres://h/d?sslmode=on"}, 2, ("sslmode may be disable, allow, prefer",)),
    Mistake("stats", {"STORAGE_URL_FILE": "/nowhere/url"}, 2, ("STORAGE_URL_FILE: '/nowhere/url' cannot be read",)),
    Mistake("stats", STORAGE | {"STORAGE_URL_FILE": "f"}, 2, ("are both set; unset one of them",)),
    Mistake("stats --table a.b.c", STORAGE, 2, ("'a.b.c' is not a table name", "schema.table")),
    Mistake("check", STORAGE | {"LEASE_TIMEOUT": "soon"}, 2, ("LEASE_TIMEOUT: 'soon' is not a duration", "7d")),
    Mistake("check", STORAGE | {"LEASE_TIMEOUT": "3"}, 2, ("it has no unit: 3s is seconds",)),
    Mistake("check", STORAGE | {"BATCH_BYTES": "64 megs"}, 2, ("BATCH_BYTES", "is not a size", "64MiB")),
    Mistake("check", STORAGE | {"BATCH_SIZE": "0"}, 2, ("BATCH_SIZE: '0' is not a whole number from 1",)),
    Mistake("check", STORAGE | {"RETRY_JITTER": "15"}, 2, ("RETRY_JITTER: '15' is not a number from 0 to 1",)),
    Mistake("check", STORAGE | {"SERVER_PORT": "eighty"}, 2, ("'eighty' is not an address", ":8080")),
    Mistake("check", STORAGE | {"PUBLISHER_TYPE": "kafak"}, 2, ("'kafak' is not allowed", "did you mean kafka?")),
    Mistake("check", STORAGE | {"PUBLISHER_TYPE": "kafka"}, 2, ("PUBLISHER_URL is not set", "host:9092")),
    Mistake("check", STORAGE | {"PUBLISHER_URL": "host:9092"}, 2, ("PUBLISHER_TYPE is not set", "kafka://")),
    Mistake(
        "check",
        STORAGE | {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": "nats://u:hunter2@h"},
        2,
        ("the address of nats, but PUBLISHER_TYPE is kafka; change one of them",),
    ),
    Mistake("check", STORAGE | {"STORAGE_TABEL_NAME": "x"}, 1, ("did you mean STORAGE_TABLE_NAME?",)),
    Mistake(
        "check", STORAGE | {"LEASE_TIMEOUT": "1s"}, 1, ("LEASE_TIMEOUT=1s is below 10s", "set LEASE_TIMEOUT to 30s")
    ),
]

USAGE = [
    Mistake("nosuch", {}, 2, ("relay-cli has no command 'nosuch'", "the commands are migrate, roles, check")),
    Mistake("statz", {}, 2, ("no command 'statz'; did you mean stats", "relay-cli --help")),
    Mistake("log evnts", {}, 2, ("relay-cli log has no command 'evnts'; did you mean events",)),
    Mistake("spark ingset", {}, 2, ("did you mean ingest",)),
    Mistake("stats --jsn", STORAGE, 2, ("no such option: --jsn", "--json", f"relay-cli stats {HELP}")),
    Mistake("prune --delivred-age 1d", STORAGE, 2, ("no such option: --delivred-age", "--delivered-age")),
    Mistake("stats extra", STORAGE, 2, ("unexpected extra argument", "extra")),
    Mistake("stats --storage-url", {}, 2, ("'--storage-url' requires an argument",)),
    Mistake("list --status ded", STORAGE, 2, ("'ded' is none of pending, delivering", "did you mean dead?")),
    Mistake("list --limit 0", STORAGE, 2, ("'--limit': '0' is not a whole number from 1 to 10000", HELP)),
    Mistake("list --limit many", STORAGE, 2, ("'many' is not a whole number",)),
    Mistake("list --older-than yesterday", STORAGE, 2, ("'yesterday' is not a duration", "24h or 7d")),
    Mistake("stats --watch soon", STORAGE, 2, ("'--watch': 'soon' is not a duration", "90s")),
    Mistake("stats --watch 0", STORAGE, 2, ("'0' is not a pause of at least 0.1 s",)),
    Mistake("show", STORAGE, 2, ("missing argument 'EVENT_ID'", "relay-cli show --help")),
    Mistake("show nonsense", STORAGE, 2, ("'nonsense' is not an event's id", "relay-cli list shows them")),
    Mistake("prune --delivered-age 7x", STORAGE, 2, ("'7x' is not a duration", "24h or 7d")),
    Mistake("prune --batch-size 0", STORAGE, 2, ("'0' is not a whole number from 1 to 100000",)),
    Mistake("replay", STORAGE, 2, ("say which events", "--status")),
    Mistake("replay --id x", STORAGE, 2, ("'x' is not an event's id", "relay-cli list")),
    Mistake("replay --status pending", STORAGE, 2, ("'pending' is none of dead, delivered",)),
    Mistake("replay --from 7x", STORAGE, 2, ("'7x' is neither an age like 2h nor a time like",)),
    Mistake("replay --from 2026-01-01T00:00:00", STORAGE, 2, ("has no time zone; write for example",)),
    Mistake("replay --rate 0", STORAGE, 2, ("'0' is not a number of at least 0.01",)),
    Mistake(
        "migrate --with key_order", STORAGE, 2, ("extension 'key_order' does not exist", "did you mean key-order?")
    ),
    Mistake("log events --since yesterday", LOG, 2, ("'yesterday' is not a time; write for example",)),
    Mistake("log events --order sideways", LOG, 2, ("unknown order 'sideways'; choose from asc, desc",)),
    Mistake("log events --limit 0", LOG, 2, ("'0' is not a whole number of at least 1",)),
    Mistake("log events --next garbage", LOG, 2, ("pass on what a page returned, unchanged",)),
    Mistake("log attempts --status sucess", LOG, 2, ("unknown status 'sucess'; choose from success, failed",)),
    Mistake(f"{METRICS} --measure speed", LOG, 2, ("unknown measure 'speed'; choose from count",)),
    Mistake(f"{METRICS} --granularity 1x", LOG, 2, ("'1x' is not a granularity", "for example 1h")),
    Mistake(METRICS.replace("attempts", "tries"), LOG, 2, ("'tries' is neither events nor attempts",)),
    Mistake("log events --delivery-log-url mysql://u:hunter2@h/d", {}, 2, ("begins with postgres://, clickhouse://",)),
    Mistake("log event x", LOG, 1, ("there is no event 'x'",)),
    Mistake("log retention --days week", LOG, 2, ("'week' is not a number of days, such as 7 or 7d",)),
    Mistake("log partitions rebuild", LOG, 2, ("'rebuild' is none of ensure, drop, check",)),
    Mistake("log partitions drop", LOG, 2, ("drop needs --days",)),
    Mistake("log partitions ensure", LOG, 2, ("only a PostgreSQL log has monthly partitions",)),
    Mistake("log copy --from memory://", {}, 2, ("missing option '--to'",)),
    Mistake("store append me s Opened", STORAGE, 2, ("'me' is not a tenant's id", "relay-cli tenant list")),
    Mistake(f"store append {EVENT} {EVENT} Opened --data {{", STORAGE, 2, ("--data: not JSON",)),
    Mistake(f"store append {EVENT} {EVENT} Opened --meta 3", STORAGE, 2, ("--meta: not a JSON object",)),
    Mistake(f"store append {EVENT} {EVENT} O --expected-version x", STORAGE, 2, ("a number, any or none",)),
    Mistake("store grant me readr", STORAGE, 2, ("'readr' is none of reader", "did you mean reader?")),
    Mistake(f"tenant drop {EVENT}", STORAGE, 2, ("irreversible; confirm with: --confirm",)),
    Mistake("tenant import /nowhere.jsonl", STORAGE, 2, ("'/nowhere.jsonl' does not exist",)),
    Mistake("spark archive out --older-than 7", STORAGE, 2, ("--older-than: '7' is not a duration", "24h or 7d")),
]

UNAVAILABLE = [
    *(
        Mistake(command, STORAGE, 1, REFUSED)
        for command in (
            "stats",
            "migrate",
            "list",
            f"show {EVENT}",
            "prune",
            "replay --status dead --yes",
            "tenant list",
            "store migrate",
            "spark setup",
        )
    ),
    Mistake(
        "stats", {"STORAGE_URL": "postgres://u@no-such-host.invalid/d"}, 1, ("no-such-host.invalid", "correct the host")
    ),
    Mistake(
        "log events",
        {"DELIVERY_LOG_URL": DOWN},
        1,
        ("delivery log's database does not answer", "Connection refused", "check DELIVERY_LOG_URL: no server listens"),
        ("STORAGE_URL",),
    ),
    Mistake(
        "log events",
        {"DELIVERY_LOG_URL": "clickhouse://u:hunter2@127.0.0.1:1/d"},
        1,
        ("ClickHouse does not answer", "127.0.0.1 port 1: Connection refused", "check DELIVERY_LOG_URL"),
    ),
    Mistake(
        "replay --status delivered --yes",
        STORAGE | {"PUBLISHER_TYPE": "nats", "PUBLISHER_URL": "nats://u:hunter2@127.0.0.1:1"},
        1,
        ("nats://127.0.0.1:1", "check PUBLISHER_URL"),
    ),
]


def name(mistake: Mistake) -> str:
    return f"{mistake.command} {mistake.env.get('STORAGE_URL', '')}".replace(DOWN, "").strip()


@pytest.mark.parametrize("mistake", SETTINGS, ids=name)
def test_a_wrong_setting(tmp_path: Path, mistake: Mistake) -> None:
    answer(tmp_path, mistake)


@pytest.mark.parametrize("mistake", USAGE, ids=name)
def test_wrong_usage(tmp_path: Path, mistake: Mistake) -> None:
    answer(tmp_path, mistake)


@pytest.mark.parametrize("mistake", UNAVAILABLE, ids=name)
def test_a_server_that_is_down(tmp_path: Path, mistake: Mistake) -> None:
    text = answer(tmp_path, mistake)
    assert text.count("Connection refused") <= 1


DAEMON = [
    Mistake("--helth", {}, 2, ("unknown argument --helth", "relay --help")),
    Mistake("", {}, 2, ("STORAGE_URL is not set", "wrong_setting")),
    Mistake("", {"DATABASE_URL": DOWN}, 2, ("DATABASE_URL is set and is not read: set STORAGE_URL instead",)),
    Mistake(
        "",
        STORAGE | {"PUBLISHER_TYPE": "redis", "PUBLISHER_URL": "rediss://127.0.0.1:1/0?ssl_ca_certs=/nowhere/ca.pem"},
        2,
        ("PUBLISHER_URL: ssl_ca_certs='/nowhere/ca.pem' cannot be read: No such file",),
    ),
    Mistake(
        "",
        STORAGE | {"PUBLISHER_URL": "kafka://127.0.0.1:1?security.protocol=SSL&ssl.ca.location=/nowhere/ca.pem"},
        2,
        ("PUBLISHER_URL: ssl.ca.location='/nowhere/ca.pem' cannot be read: No such file",),
    ),
    Mistake(
        "",
        STORAGE | {"PUBLISHER_URL": "tls://127.0.0.1:1?tls_ca=/nowhere/ca.pem"},
        2,
        ("PUBLISHER_URL: tls_ca='/nowhere/ca.pem' cannot be read: No such file",),
    ),
]


@pytest.mark.process
@pytest.mark.parametrize("mistake", DAEMON, ids=lambda mistake: mistake.env.get("PUBLISHER_URL", mistake.command))
def test_the_daemon_ends_with_two_for_what_no_restart_corrects(tmp_path: Path, mistake: Mistake) -> None:
    program = [sys.executable, "-m", "relay", *mistake.command.split()]
    done = run_program(program, tmp_path, SERVER_PORT="127.0.0.1:0", **mistake.env)
    assert done.returncode == mistake.code, done.stdout + done.stderr
    check(done.stderr, mistake)
