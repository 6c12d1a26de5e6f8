"""``relay-cli check --for ROLE``: it names what a user lacks, and following its advice is enough."""

from __future__ import annotations

import json
import re
import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relay.core.role import Role
from relay.outbox.extensions import add_extension
from relay.postgres.grants import Right, rights_of
from relay.postgres.sql import TableName
from tests.cli.running import call_cli
from tests.support.fixtures.outbox import Outbox, as_user, give_rights, through

OTHERS = [role for role in Role if role is not Role.RELAY]


@pytest.fixture
def user(outbox: Outbox) -> Iterator[str]:
    """A user with no right of its own; roles belong to the whole server."""
    name = f"check {uuid.uuid4().hex[:8]}"
    outbox.database.run(f'CREATE ROLE "{name}" LOGIN')
    with outbox.database.connect() as connection:
        give_rights(connection)  # the copy of a database has no rights on the database itself
    yield name
    outbox.database.run(f'DROP OWNED BY "{name}"')
    outbox.database.run(f'DROP ROLE "{name}"')


def check(folder: Path, role: str, url: str, *arguments: str) -> tuple[int, list[dict[str, str]]]:
    """The exit code and the findings that are not ok."""
    variables = {"STORAGE_URL": url, "DELIVERY_LOG_URL": url}
    done = call_cli(folder, "check", "--for", role, "--json", *arguments, **variables)
    assert done.stderr == ""
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return done.returncode, [finding for finding in findings if finding["level"] != "ok"]


def follow(folder: Path, outbox: Outbox, advice: str) -> None:
    """Do what a finding says, as the owner; SQL that grants as a superuser."""
    if command := re.search(r"relay-cli (.+)", advice):
        url = {"STORAGE_URL": outbox.owner_url, "DELIVERY_LOG_URL": outbox.owner_url}
        done = call_cli(folder, *shlex.split(command[1]), **url)
        assert done.returncode == 0, done.stderr
    else:
        for statement in re.sub(r"^run: (.+, or: )?", "", advice).split("; "):
            outbox.database.run(statement)


@pytest.mark.parametrize("role", OTHERS)
def test_following_the_advice_is_enough(outbox: Outbox, user: str, tmp_path: Path, role: str) -> None:
    url = as_user(outbox.url, user.replace(" ", "%20"))
    steps = []
    for _ in range(4):
        code, findings = check(tmp_path, role, url)
        if not findings:
            break
        assert code == 1
        assert all(finding["level"] == "error" for finding in findings)
        steps.append([finding["subject"] for finding in findings])
        for finding in findings:
            follow(tmp_path, outbox, finding["advice"])
    assert (code, findings) == (0, [])
    assert steps[-1][0] == "rights"
    own_objects = role in (Role.SPARK, Role.EVENTSTORE, Role.DELIVERYLOG, Role.CONSUMER)
    assert (steps[0] == ["objects"]) is own_objects
    assert call_cli(tmp_path, "check", "--for", role, STORAGE_URL=url, DELIVERY_LOG_URL=url).stdout.count("ok ") > 0


def test_a_console_without_the_rights_on_an_event_store_is_warned(outbox: Outbox, tmp_path: Path) -> None:
    with outbox.database.connect() as connection:
        give_rights(connection)  # the copy of a database has no rights on the database itself
        add_extension(outbox.owner_url, TableName(), "console")
        follow(tmp_path, outbox, "relay-cli log migrate")
        give_rights(connection)  # on the new tables
        follow(tmp_path, outbox, "relay-cli store migrate --positions settled")
    code, [finding] = check(tmp_path, "console", outbox.url_of("console"))
    assert (code, finding["level"]) == (0, "warning")
    first, _, rest = finding["advice"].partition("; for all of it, ")
    assert first == 'first is missing: GRANT SELECT ON "public".event TO "test_console"'
    assert rest == "run as the owner: relay-cli store grant test_console console"
    follow(tmp_path, outbox, rest)
    assert check(tmp_path, "console", outbox.url_of("console"), "--strict") == (0, [])


def test_a_console_whose_extension_is_of_an_earlier_version_is_told_to_migrate(outbox: Outbox, tmp_path: Path) -> None:
    add_extension(outbox.owner_url, TableName(), "console")
    outbox.database.run("DROP TABLE openoutbox_cancelled")
    with outbox.database.connect() as connection:
        give_rights(connection)  # the copy of a database has no rights on the database itself
        follow(tmp_path, outbox, "relay-cli log migrate")
        give_rights(connection)  # on the new tables
    code, [finding] = check(tmp_path, "console", outbox.url_of("console"))
    assert (code, finding["level"]) == (0, "warning")
    assert finding["advice"].endswith("relay-cli migrate --table openoutbox_events --with console")
    follow(tmp_path, outbox, finding["advice"])
    code, [finding] = check(tmp_path, "console", outbox.url_of("console"))
    assert (code, finding["subject"]) == (1, "rights")
    follow(tmp_path, outbox, finding["advice"])
    assert check(tmp_path, "console", outbox.url_of("console"), "--strict") == (0, [])


def test_the_relays_user_may_not_prune(outbox: Outbox, tmp_path: Path) -> None:
    code, [finding] = check(tmp_path, "prune", outbox.relay_url)
    assert code == 1
    assert finding["message"] == 'test_relay lacks DELETE on "openoutbox_events"'
    assert finding["advice"] == 'run: GRANT SELECT, DELETE ON "openoutbox_events" TO "test_relay"'
    assert check(tmp_path, "prune", outbox.pruner_url) == (0, [])
    assert check(tmp_path, "reader", outbox.pruner_url) == (0, [])


def test_events_that_prune_should_have_deleted_are_a_warning_for_the_relay_and_for_prune(
    outbox: Outbox, tmp_path: Path
) -> None:
    outbox.fill("t", 1)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() - interval '9 days'")
    _, [finding] = check(tmp_path, "prune", outbox.pruner_url)
    assert finding["message"] == (
        "the oldest delivered event is 9.0 days old, and prune retains 7 days: it does not run, or fails"
    )
    assert check(tmp_path, "prune", outbox.pruner_url, "--strict")[0] == 1
    assert check(tmp_path, "prune", outbox.pruner_url, "--delivered-age", "9d") == (0, [])
    relay = call_cli(tmp_path, "check", STORAGE_URL=outbox.relay_url, PUBLISHER_TYPE="stdout")
    assert "warning  prune: the oldest delivered event is 9.0 days old" in relay.stdout
    assert call_cli(tmp_path, "prune", STORAGE_URL=outbox.pruner_url).returncode == 0
    assert check(tmp_path, "prune", outbox.pruner_url) == (0, [])


def test_a_missing_right_on_the_schema_is_named(outbox: Outbox, tmp_path: Path) -> None:
    outbox.database.run("CREATE SCHEMA orders")
    outbox.database.run("ALTER TABLE openoutbox_events SET SCHEMA orders")
    variables = {"STORAGE_URL": outbox.relay_url, "STORAGE_TABLE_NAME": "orders.openoutbox_events"}
    done = call_cli(tmp_path, "check", PUBLISHER_TYPE="null", **variables)
    assert 'run: GRANT USAGE ON SCHEMA "orders" TO "test_relay"' in done.stdout
    outbox.database.run('GRANT USAGE ON SCHEMA "orders" TO "test_relay"')
    done = call_cli(tmp_path, "check", PUBLISHER_TYPE="null", **variables)
    assert done.returncode == 0, done.stdout


def test_options_that_a_pooler_refuses_are_named(outbox: Outbox, pgbouncer: str, tmp_path: Path) -> None:
    url = through(outbox, pgbouncer).relay_url
    done = call_cli(tmp_path, "stats", STORAGE_URL=f"{url}?options=-crole%3Dopenoutbox_relay")
    assert done.returncode == 1
    assert "the pooler takes no options in a URL" in done.stderr


@pytest.mark.parametrize("role", OTHERS)
def test_a_database_that_does_not_answer_is_a_finding_and_no_url_a_usage_error(tmp_path: Path, role: str) -> None:
    code, [finding] = check(tmp_path, role, "postgres://u:geheim@127.0.0.1:1/d")
    assert (code, finding["subject"]) == (1, "database")
    assert "geheim" not in str(finding)
    assert call_cli(tmp_path, "check", "--for", role).returncode == 2


@pytest.mark.parametrize(
    ("grant", "rights"),
    [
        (
            '-- name: x\nGRANT SELECT, UPDATE (a, b) ON "s"."t, u", v TO r\n',
            [
                Right("SELECT", "table", '"s"."t, u"'),
                Right("UPDATE", "table", '"s"."t, u"', "a"),
                Right("UPDATE", "table", '"s"."t, u"', "b"),
                Right("SELECT", "table", "v"),
                Right("UPDATE", "table", "v", "a"),
                Right("UPDATE", "table", "v", "b"),
            ],
        ),
        (
            "GRANT EXECUTE ON FUNCTION s.f(UUID, INT), s.g() TO r",
            [Right("EXECUTE", "function", "s.f(UUID, INT)"), Right("EXECUTE", "function", "s.g()")],
        ),
        ("GRANT EXECUTE ON PROCEDURE s.p(INT) TO r", [Right("EXECUTE", "procedure", "s.p(INT)")]),
        ("GRANT USAGE, CREATE ON SCHEMA s TO r", [Right("USAGE", "schema", "s"), Right("CREATE", "schema", "s")]),
    ],
)
def test_rights_are_read_from_their_grants(grant: str, rights: list[Right]) -> None:
    assert rights_of([grant]) == rights


def test_what_is_no_grant_is_refused() -> None:
    with pytest.raises(ValueError, match="not a GRANT: DROP TABLE t"):
        rights_of(["DROP TABLE t"])
