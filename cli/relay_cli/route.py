"""``relay-cli route``: where events of a type go, one destination or several."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from relay_cli.groups import HELP, single_command
from relay_cli.output import one_line, print_json, say
from relay_cli.shared_options import Json, name_and_value

if TYPE_CHECKING:
    from relay.core.outcome import Permanent
    from relay.routing.rules import Decision, Rule

app = single_command()

_ONLY = (
    "ROUTES_FILE",
    "ROUTE_PREFIX",
    "DESTINATIONS_FILE",
    "HTTP_ENDPOINTS_FILE",
    "PUBLISHER_TYPE",
    "PUBLISHER_URL",
    "DELIVERY_LOG_TENANT_HEADER",
    "ALLOWED_EVENT_TYPES",
)

EventType = Annotated[str, typer.Argument(metavar="TYPE", help="An event type.")]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=VALUE", help="A header of the event; may be repeated.", show_default=False),
]


@app.command("route", context_settings=HELP)
def command(event_type: EventType, header: Headers = None, as_json: Json = False) -> None:
    """Show where an event of a type goes: each destination, the name there, and the route that decides.

    It reads ROUTES_FILE, ROUTE_PREFIX, DESTINATIONS_FILE and HTTP_ENDPOINTS_FILE as the relay does at its start,
    reports every problem in them, and connects to nothing. A name that needs a header is filled in from --header.

    Exit codes: 0 the event is sent or dropped, 1 it has no destination, or one that needs a header that is not given,
    or ALLOWED_EVENT_TYPES does not allow its type, 2 wrong usage, an invalid setting or a problem in a file.

    Example: relay-cli route orders.created --header region=eu
    """
    from relay.app.destinations import read_plan
    from relay.core.allowed import refused_type
    from relay.core.event import EventId, OutboxEvent
    from relay.routing.rules import Incomplete, Routes, Unmatched
    from relay.settings.settings import Settings

    headers = json.dumps(dict(map(name_and_value, header or ())))
    settings = Settings.from_process(only=_ONLY)
    plan, allowed = read_plan(settings), settings.allowed_event_types
    refused = None if allowed is None else refused_type(event_type, allowed)
    event = OutboxEvent(EventId(""), event_type, None, b"", headers, 0, 0.0)
    decision = (plan.routes or Routes()).decide(event)
    if as_json:
        print_json(_answer(event_type, decision, refused, named=plan.several))
    elif refused is not None:
        say(one_line(f"{event_type} is DEAD at once: {refused.code}: {refused.reason}"))
    else:
        say(_sentence(event_type, decision, named=plan.several))
    if refused is not None or isinstance(decision, Incomplete | Unmatched):
        raise typer.Exit(1)


def _answer(event_type: str, decision: Decision, refused: Permanent | None, *, named: bool) -> dict[str, object]:
    from relay.routing.rules import Incomplete, Sent, SentToAll

    sent = decision.sent if isinstance(decision, SentToAll) else (decision,) if isinstance(decision, Sent) else ()
    sent = sent if refused is None else ()
    one = sent[0] if len(sent) == 1 else None
    return {
        "type": event_type,
        "decision": "refused" if refused is not None else "sent" if sent else type(decision).__name__.lower(),
        "destination": one.via if one is not None and named else None,
        "name": one.name if one is not None else None,
        "destinations": [{"destination": each.via if named else None, "name": each.name} for each in sent],
        "route": decision.rule.number if decision.rule is not None else None,
        "pattern": decision.rule.pattern if decision.rule is not None else None,
        "refused": None if refused is None else refused.reason,
        "missing_header": decision.header if isinstance(decision, Incomplete) else None,
    }


def _sentence(event_type: str, decision: Decision, *, named: bool) -> str:
    from relay.routing.rules import Dropped, Sent, SentToAll, Unmatched

    shown = one_line(event_type)
    match decision:
        case Sent(rule=rule) | SentToAll(rule=rule):
            sent = decision.sent if isinstance(decision, SentToAll) else (decision,)
            where = (f"{one_line(one.name)} at destination {one.via}" if named else one_line(one.name) for one in sent)
            return f"{shown} goes to {' and to '.join(where)}: {_rule(rule)}"
        case Dropped(rule):
            return f"{shown} is dropped: it counts as delivered and is not sent; {_rule(rule)}"
        case Unmatched():
            return f"{shown} has no destination: {decision}"
        case _:
            message = (
                f"{shown} cannot be sent without the header {one_line(decision.header)}: it fails and is tried again"
            )
            return f"{message}; {_rule(decision.rule)}"


def _rule(rule: Rule | None) -> str:
    if rule is None:
        return "no route matches"
    names = dict.fromkeys(target.to.text for target in rule.targets)
    to = f"-> {', '.join(names)}" if names else "is dropped"
    return one_line(f"route {rule.number}, {rule.pattern} {to}")
