"""ROUTES_FILE: every problem is reported at once, with the file, the route and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.core.errors import ConfigError
from relay.routing.rules import Rule, Target
from relay.routing.template import read_template
from relay.settings.routes_file import read_routes

GOOD = """
[[route]]
type = "orders.*"
to = "shop.{type}"

[[route]]
type = "audit.*"
drop = true

[[route]]
type = "*"
via = "second"
"""


def read(tmp_path: Path, text: str, destinations: list[str] | None = None) -> list[Rule]:
    path = tmp_path / "routes.toml"
    path.write_text(text)
    return read_routes(str(path), destinations or [], "tenant_id")


def problems(tmp_path: Path, text: str, destinations: list[str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text, destinations)
    return str(caught.value).replace(f"ROUTES_FILE: {tmp_path}/routes.toml: ", "").splitlines()


def test_a_file_is_read_in_order(tmp_path: Path) -> None:
    first, second, third = read(tmp_path, GOOD, ["first", "second"])
    assert first == Rule(1, "orders.*", read_template("shop.{type}", "tenant_id"), "first")
    assert (second.pattern, second.to) == ("audit.*", None)
    assert third == Rule(3, "*", read_template("{type}", "tenant_id"), "second")


def test_a_route_names_several_destinations_with_one_name_or_one_for_each(tmp_path: Path) -> None:
    text = """
    [[route]]
    type = "a"
    via = ["first", "second"]
    [[route]]
    type = "b"
    via = ["second", "first"]
    to = ["{type}", "copy.{type}"]
    """
    plain, copy = (read_template(name, "tenant_id") for name in ("{type}", "copy.{type}"))
    assert read(tmp_path, text, ["first", "second"]) == [
        Rule(1, "a", plain, "first", (Target("second", plain),)),
        Rule(2, "b", plain, "second", (Target("first", copy),)),
    ]


@pytest.mark.parametrize(
    ("route", "problem"),
    [
        ('via = ["first", "first"]', "via names first twice; name each destination once"),
        ('via = ["first", "thrid"]', "DESTINATIONS_FILE has no destination 'thrid'; did you mean third?"),
        ('via = ["first", 2]', "via is not a string"),
        ("via = []", "via is not a string"),
        ('via = ["first", ""]', "via is not a string"),
        (
            'via = ["first", "third"]\nto = ["a", "b", "c"]',
            "to has 3 names, and via 2 destinations; write one for each",
        ),
        ('via = "first"\nto = ["a", "b"]', "to is a list, and an event goes to one destination"),
        ('via = ["first", "third"]\nto = []', "it has neither to nor drop"),
        ('via = ["first", "third"]\nto = ["a", "{typ}"]', "to: {typ} is not known"),
    ],
)
def test_several_destinations_that_cannot_work_are_refused(tmp_path: Path, route: str, problem: str) -> None:
    [found] = problems(tmp_path, f'[[route]]\ntype = "a"\n{route}', ["first", "third"])
    assert found.startswith(f"route 1: {problem}")


def test_every_problem_is_reported_with_its_route(tmp_path: Path) -> None:
    text = """
    rout = 1
    [[route]]
    to = "x"
    [[route]]
    type = "a"
    to = "{typ}"
    [[route]]
    type = "b"
    [[route]]
    type = "c"
    drop = true
    to = "x"
    [[route]]
    type = "d"
    to = ["x", "y"]
    [[route]]
    typ = "e"
    type = ""
    drop = "yes"
    """
    found = problems(tmp_path, text)
    assert [one.partition(";")[0] for one in found] == [
        "'rout' is not known",
        "route 1: type is missing or not a string",
        "route 2: to: {typ} is not known",
        "route 3: it has neither to nor drop",
        "route 4: drop = true is set together with to or via",
        "route 5: to is a list, and an event goes to one destination",
        "route 6: 'typ' is not known",
        "route 6: type is missing or not a string",
        "route 6: drop is neither true nor false",
    ]
    assert found[6].endswith("did you mean type?")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it holds no route"),
        ("route = 1", "route is not a list of tables"),
        (
            "[[route]]\ntype = '*'\nto = 'a'\n[[route]]\ntype = 'b'\nto = 'c'",
            "route 2: it is never used, because route 1",
        ),
        ("[[route]]\ntype = 'b'\nto = 'a'\n[[route]]\ntype = 'b'\nto = 'c'", "route 2: it is never used"),
        (
            "[[route]]\ntype = 'b'\nvia = 'x'",
            "route 1: via names the destination 'x', and DESTINATIONS_FILE is not set",
        ),
        ("[[route]]\ntype = 'b'\nvia = ''", "route 1: via is not a string"),
    ],
)
def test_a_file_that_cannot_work_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert problems(tmp_path, text)[0].startswith(problem)


def test_a_destination_that_is_not_in_the_other_file_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    text = "[[route]]\ntype = 'b'\nvia = 'fist'"
    assert problems(tmp_path, text, ["first", "second"]) == [
        "route 1: DESTINATIONS_FILE has no destination 'fist'; did you mean first?"
    ]


def test_a_fault_of_the_text_is_named_by_its_place_and_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "routes.toml"
    path.write_text('[[route]]\ntype = "a"\nto = s3cret\n')
    with pytest.raises(ConfigError) as caught:
        read_routes(str(path), [], "tenant_id")
    assert "at line 3" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ROUTES_FILE: .*No such file"):
        read_routes(str(tmp_path / "missing.toml"), [], "tenant_id")
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_routes(str(tmp_path / "latin"), [], "tenant_id")
