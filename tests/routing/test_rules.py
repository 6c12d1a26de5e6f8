"""Rules: the first that matches decides, a name is filled in, and nothing is guessed."""

from __future__ import annotations

import json

import pytest

from relay.core.event import OutboxEvent
from relay.routing.rules import Decision, Dropped, Incomplete, Routes, Rule, Sent
from relay.routing.template import read_template
from tests.brokers.harness.base import make_event


def rule(pattern: str, to: str | None = "{type}", via: str = "", number: int = 1) -> Rule:
    return Rule(number, pattern, None if to is None else read_template(to, "tenant_id"), via)


def event(event_type: str, **headers: object) -> OutboxEvent:
    return make_event(event_type, headers=json.dumps(headers))


def decided(routes: Routes, event_type: str, **headers: object) -> Decision:
    return routes.decide(event(event_type, **headers))


def name(decision: Decision) -> str:
    assert isinstance(decision, Sent)
    return decision.name


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["order", "orders.x", "Orders", "xorders"]),
        ("orders.*", ["orders.", "orders.created", "orders.a.b"], ["orders", "xorders.a"]),
        ("*.created", ["orders.created", ".created", "a.b.created"], ["orders.created.x"]),
        ("a*b*c", ["abc", "axbxc", "abbc", "a\nbc"], ["ab", "acb"]),
        ("*", ["", "anything"], []),
        ("a.c", ["a.c"], ["abc"]),
        ("a[b]?", ["a[b]?"], ["ab", "a[b]x"]),
    ],
)
def test_a_star_stands_for_any_text_and_everything_else_for_itself(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    routes = Routes([rule(pattern, "matched")], default="")
    assert {name(decided(routes, one)) for one in matching} == {"matched"}
    assert [name(decided(routes, one)) for one in others] == others


def test_the_first_rule_that_matches_decides() -> None:
    routes = Routes([rule("a.b", "first"), rule("a.*", None, number=2), rule("*", "last", number=3)])
    assert name(decided(routes, "a.b")) == "first"
    assert decided(routes, "a.c") == Dropped(rule("a.*", None, number=2))
    assert name(decided(routes, "b")) == "last"


def test_a_name_is_made_of_type_tenant_and_headers_and_the_prefix_stands_before_it() -> None:
    routes = Routes([rule("*", "{tenant}.{type}-{header:region}!")], prefix="shop.")
    assert name(decided(routes, "orders", tenant_id="acme", region="eu")) == "shop.acme.orders-eu!"
    assert name(decided(routes, "orders", tenant_id=17, region=True)) == "shop.17.orders-true!"  # as they travel
    assert name(decided(Routes(prefix="shop."), "orders")) == "shop.orders"


@pytest.mark.parametrize("headers", [{}, {"region": ""}, {"Region": "eu"}])
def test_without_a_header_that_its_name_needs_an_event_has_no_destination(headers: dict[str, str]) -> None:
    decision = decided(Routes([rule("*", "{header:region}.{type}")]), "orders", **headers)
    assert isinstance(decision, Incomplete)
    why = "route 1 sends * to {header:region}.{type}, and the event has no header region"
    assert str(decision) == f"{why}; add the header, or correct ROUTES_FILE"


def test_headers_that_are_no_object_are_no_headers() -> None:
    routes = Routes([rule("*", "{header:a}")])
    assert isinstance(routes.decide(make_event("x", headers='["a"]')), Incomplete)


def test_events_of_one_type_go_apart_only_by_headers() -> None:
    assert not Routes([rule("*", "x.{type}"), rule("b", None)]).by_header
    assert Routes([rule("*", "{tenant}")]).by_header


def test_what_no_rule_matches_goes_to_the_default_destination() -> None:
    routes = Routes([rule("a", "b", via="second")], default="first")
    assert (decided(routes, "a"), decided(routes, "c")) == (
        Sent("second", "b", rule("a", "b", via="second")),
        Sent("first", "c", None),
    )


def test_an_empty_type_is_left_to_the_broker() -> None:
    assert name(decided(Routes([rule("*", "{type}")]), "")) == ""


def test_many_types_are_forgotten_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.routing.rules._MOST_REMEMBERED", 3)
    routes = Routes([rule("a*", "x")])
    for _ in range(2):
        assert [name(decided(routes, f"a{number}")) for number in range(10)] == ["x"] * 10


@pytest.mark.parametrize("text", ["{}", "{typ}", "{header:}", "{header}", "a{type", "a}b", "{{type}}", ""])
def test_a_template_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|brace"):
        read_template(text, "tenant_id")
