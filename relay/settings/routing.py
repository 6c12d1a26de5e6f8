"""The variables that say where events go. ``relay.settings.variables`` has the table of groups."""

from __future__ import annotations

from relay.settings.fields import VariableGroup, variable
from relay.settings.kinds import Text


class Routing(VariableGroup):
    """Routing"""

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
