"""``relay-cli route`` shows where an event goes, and every problem of the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import call_cli

ROUTES = """
[[route]]
type = "orders.*"
to = "shop.{type}"

[[route]]
type = "audit.*"
drop = true

[[route]]
type = "mails"
to = "{tenant}.{header:region}"
"""


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "routes.toml"
    path.write_text(ROUTES)
    return {"ROUTES_FILE": str(path)}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["orders.created"], "orders.created goes to shop.orders.created: route 1, orders.* -> shop.{type}"),
        (["audit.x"], "audit.x is dropped: it counts as delivered and is not sent; route 2, audit.* is dropped"),
        (["other"], "other goes to other: no route matches"),
        (
            ["mails", "--header", "tenant_id=acme", "--header", "region=eu=1"],
            "mails goes to acme.eu=1: route 3, mails -> {tenant}.{header:region}",
        ),
    ],
)
def test_it_says_where_an_event_goes(
    tmp_path: Path, variables: dict[str, str], arguments: list[str], sentence: str
) -> None:
    done = call_cli(tmp_path, "route", *arguments, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{sentence}\n", "")


def test_a_header_that_is_missing_is_named(tmp_path: Path, variables: dict[str, str]) -> None:
    done = call_cli(tmp_path, "route", "mails", "--header", "tenant_id=acme", **variables)
    assert done.returncode == 1
    assert "mails cannot be sent without the header region" in done.stdout


def test_a_type_that_is_not_allowed_is_said_to_be_dead(tmp_path: Path, variables: dict[str, str]) -> None:
    allowed = variables | {"ALLOWED_EVENT_TYPES": "orders.*"}
    assert call_cli(tmp_path, "route", "orders.a", **allowed).returncode == 0
    done = call_cli(tmp_path, "route", "mails", **allowed)
    assert done.returncode == 1
    assert "mails is DEAD at once: NOT_ALLOWED: no pattern of ALLOWED_EVENT_TYPES matches 'mails'" in done.stdout
    answer = json.loads(call_cli(tmp_path, "route", "mails", "--json", **allowed).stdout)
    assert (answer["decision"], answer["destinations"]) == ("refused", [])


def test_it_prints_json(tmp_path: Path, variables: dict[str, str]) -> None:
    done = call_cli(tmp_path, "route", "orders.a", "--json", ROUTE_PREFIX="x.", **variables)
    assert json.loads(done.stdout) == {
        "type": "orders.a",
        "decision": "sent",
        "destination": None,
        "name": "x.shop.orders.a",
        "destinations": [{"destination": None, "name": "x.shop.orders.a"}],
        "route": 1,
        "pattern": "orders.*",
        "refused": None,
        "missing_header": None,
    }


def test_it_names_the_destination_where_there_are_several(tmp_path: Path) -> None:
    destinations = tmp_path / "destinations.toml"
    destinations.write_text('[main]\nurl = "nats://h"\n[other]\nurl = "redis://:s3cr3t@h"\n')
    routes = tmp_path / "routes.toml"
    routes.write_text('[[route]]\ntype = "a"\nvia = "other"\n')
    variables = {"DESTINATIONS_FILE": str(destinations), "ROUTES_FILE": str(routes)}
    assert (
        call_cli(tmp_path, "route", "a", **variables).stdout
        == "a goes to a at destination other: route 1, a -> {type}\n"
    )
    assert call_cli(tmp_path, "route", "b", **variables).stdout == "b goes to b at destination main: no route matches\n"
    routes.write_text('[[route]]\ntype = "a"\nvia = "othr"\n')
    done = call_cli(tmp_path, "route", "a", **variables)
    assert done.returncode == 2
    assert "did you mean other?" in done.stderr
    destinations.write_text('[main]\nurl = "redis://:s3cr3t@h"\nredis_write_timeout = "x"\n')
    done = call_cli(tmp_path, "route", "a", **variables)
    assert (done.returncode, "s3cr3t" in done.stderr) == (2, False)


def test_it_shows_every_destination_of_an_event_for_several(tmp_path: Path) -> None:
    destinations, routes = tmp_path / "destinations.toml", tmp_path / "routes.toml"
    destinations.write_text('[main]\nurl = "nats://h"\n[audit]\nurl = "redis://h"\n')
    routes.write_text('[[route]]\ntype = "a.*"\nvia = ["main", "audit"]\nto = ["{type}", "copy.{header:region}"]\n')
    variables = {"DESTINATIONS_FILE": str(destinations), "ROUTES_FILE": str(routes)}
    done = call_cli(tmp_path, "route", "a.b", "--header", "region=eu", **variables)
    assert done.stdout == (
        "a.b goes to a.b at destination main and to copy.eu at destination audit: "
        "route 1, a.* -> {type}, copy.{header:region}\n"
    )
    done = call_cli(tmp_path, "route", "a.b", "--header", "region=eu", "--json", **variables)
    answer = json.loads(done.stdout)
    assert (answer["decision"], answer["destination"], answer["name"]) == ("sent", None, None)
    assert answer["destinations"] == [
        {"destination": "main", "name": "a.b"},
        {"destination": "audit", "name": "copy.eu"},
    ]
    done = call_cli(tmp_path, "route", "a.b", **variables)
    assert (done.returncode, "without the header region" in done.stdout) == (1, True)


def test_every_problem_of_the_file_is_printed(tmp_path: Path, variables: dict[str, str]) -> None:
    Path(variables["ROUTES_FILE"]).write_text('[[route]]\ntype = "a"\n[[route]]\nto = "x"\n')
    done = call_cli(tmp_path, "route", "a", **variables)
    assert done.returncode == 2
    assert "route 1: it has neither to nor drop" in done.stderr
    assert "route 2: type is missing" in done.stderr


def test_a_header_must_have_a_value(tmp_path: Path, variables: dict[str, str]) -> None:
    done = call_cli(tmp_path, "route", "a", "--header", "region", **variables)
    assert done.returncode == 2
    assert "'region' is not NAME=VALUE" in done.stderr
