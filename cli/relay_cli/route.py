"""``relay-cli route``: where events of a type go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.groups import HELP, single_command
from relay_cli.options import Json
from relay_cli.output import one_line, print_json

if TYPE_CHECKING:
    from relay.routing.rules import Decision, Rule

app = single_command()

_ONLY = ("ROUTES_FILE", "ROUTE_PREFIX", "DESTINATIONS_FILE", "DELIVERY_LOG_TENANT_HEADER")

EventType = Annotated[str, typer.Argument(metavar="TYPE", help="An event type.")]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=VALUE", help="A header of the event; may be repeated.", show_default=False),
]


@app.command("route", context_settings=HELP)
def command(event_type: EventType, header: Headers = None, as_json: Json = False) -> None:
    """Show where an event of a type goes: the destination, its name, and the route that decides.

    It reads ROUTES_FILE, ROUTE_PREFIX and DESTINATIONS_FILE as the relay does at its start, reports every problem in
    them, and connects to nothing. A name that needs a header is filled in from --header.

    Exit codes: 0 the event is sent or dropped, 1 its destination needs a header that is not given, 2 wrong usage, an
    invalid setting or a problem in a file.

    Example: relay-cli route orders.created --header region=eu
    """
    from relay.app.destinations import read_plan
    from relay.core.event import EventId, OutboxEvent
    from relay.routing.rules import Incomplete, Routes, Sent
    from relay.settings.settings import Settings

    headers = json.dumps(dict(map(_header, header or ())))
    plan = read_plan(Settings.from_process(only=_ONLY))
    event = OutboxEvent(EventId(""), event_type, None, b"", headers, 0, 0.0)
    decision = (plan.routes or Routes()).decide(event)
    named = isinstance(decision, Sent) and plan.several
    if as_json:
        print_json(_answer(event_type, decision, named=named))
    else:
        typer.echo(_sentence(event_type, decision, named=named))
    if isinstance(decision, Incomplete):
        raise typer.Exit(1)


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value


def _answer(event_type: str, decision: Decision, *, named: bool) -> dict[str, object]:
    from relay.routing.rules import Incomplete, Sent

    return {
        "type": event_type,
        "decision": type(decision).__name__.lower(),
        "destination": decision.via if isinstance(decision, Sent) and named else None,
        "name": decision.name if isinstance(decision, Sent) else None,
        "route": decision.rule.number if decision.rule is not None else None,
        "pattern": decision.rule.pattern if decision.rule is not None else None,
        "missing_header": decision.header if isinstance(decision, Incomplete) else None,
    }


def _sentence(event_type: str, decision: Decision, *, named: bool) -> str:
    from relay.routing.rules import Dropped, Sent

    shown = one_line(event_type)
    match decision:
        case Sent(via, name, rule):
            where = f"{one_line(name)} at destination {via}" if named else one_line(name)
            return f"{shown} goes to {where}: {_rule(rule)}"
        case Dropped(rule):
            return f"{shown} is dropped: it counts as delivered and is not sent; {_rule(rule)}"
        case _:
            message = (
                f"{shown} cannot be sent without the header {one_line(decision.header)}: it fails and is tried again"
            )
            return f"{message}; {_rule(decision.rule)}"


def _rule(rule: Rule | None) -> str:
    if rule is None:
        return "no route matches"
    to = "is dropped" if rule.to is None else f"-> {rule.to.text}"
    return one_line(f"route {rule.number}, {rule.pattern} {to}")
