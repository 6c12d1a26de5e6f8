"""The variables that say where events go. ``relay.settings.variables`` has the table of groups."""

from __future__ import annotations

from relay.settings.fields import VariableGroup, variable
from relay.settings.value_kinds import Patterns, Text


class Routing(VariableGroup):
    """Routing"""

    allowed_event_types: Patterns | None = variable(
        None,
        "The event types that are sent, patterns separated by commas: `orders.*,user.signup`; all others are `DEAD` "
        "with `NOT_ALLOWED` (see docs/operate/trust.md). A name that steers a broker, as `$KV.…` of NATS, needs a "
        "pattern that begins so.",
        shown="unset: all but names that steer a broker",
    )
    route_prefix: Text = variable(
        "", "Prefix of the name of every destination (see docs/guide/routing.md).", shown="none"
    )
    routes_file: Text | None = variable(
        None, "TOML file of routes from event types to destinations (see docs/guide/routing.md).", shown="unset"
    )
    destinations_file: Text | None = variable(
        None,
        "TOML file of several destinations, instead of PUBLISHER_URL and PUBLISHER_TYPE (see docs/guide/routing.md).",
        shown="unset",
    )
