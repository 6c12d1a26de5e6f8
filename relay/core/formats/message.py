"""What a message format makes of an event.

The modules of ``relay.core.formats`` make it, the publishers send it: their ``headers`` modules put ``own`` and
``others`` behind the header that carries the event's id. Without a format (``MESSAGE_FORMAT=openoutbox``) none of this
runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from relay.core.event import OutboxEvent
from relay.core.headers import Header

USER_PREFIX: Final = "X-User-"
"""Before the name of an application's header that would take the place of one of the relay's own."""


class FormattedMessage(NamedTuple):
    """The body and the headers of one message."""

    payload: bytes
    own: list[Header]
    """Headers that the format sets. No name occurs twice, and the broker carries each value as it is."""
    others: list[Header]
    """The application's headers that stay headers; none has the name of one in ``own``."""


MessageFormat: TypeAlias = Callable[[OutboxEvent], FormattedMessage]
"""Never raises: a format is never a reason to lose an event."""
