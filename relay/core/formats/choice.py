"""From MESSAGE_FORMAT to the format, for the composition (``relay.app.publishers``) and Spark's reconciliation."""

from __future__ import annotations

from typing import Final

from relay.core.formats import cloudevents, debezium
from relay.core.formats.message import MessageFormat

NAMES: Final = ("openoutbox", "cloudevents", "cloudevents-structured", "debezium", "debezium-server")
"""The values of MESSAGE_FORMAT."""
CLOUDEVENTS: Final = ("cloudevents", "cloudevents-structured")
"""Those that need a CLOUDEVENTS_SOURCE."""


def message_format(name: str, source: str, binding: cloudevents.Binding) -> MessageFormat | None:
    """The format of that name for one protocol; None is the contract's own. ``source`` is CLOUDEVENTS_SOURCE."""
    match name:
        case "cloudevents":
            return cloudevents.binary(source, binding)
        case "cloudevents-structured":
            return cloudevents.structured(source, binding)
        case "debezium":
            return debezium.connect_message
        case "debezium-server":
            return debezium.server_message
        case _:
            return None
