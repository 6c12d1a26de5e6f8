"""From MESSAGE_FORMAT to the format, for the composition (``relay.app.publishers``)."""

from __future__ import annotations

from relay.core.formats import cloudevents, debezium
from relay.core.formats.message import MessageFormat


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
