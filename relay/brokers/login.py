"""The login of PUBLISHER_URL as it is now: from its file, with the password of its command.

A session asks for it before it connects, and says so when it was refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from relay.core.errors import BrokerRefused, BrokerUnreachable, StorageUnavailable
from relay.core.formats.message import MessageFormat
from relay.core.origins import LiveUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """What the options of every kind with a server have; of the variables, ``relay.settings`` holds the defaults."""

    message_format: MessageFormat | None
    """None for the contract's own."""
    url: str = field(repr=False)
    """PUBLISHER_URL as it was at the start, with its login."""
    live: LiveUrl | None = field(default=None, repr=False, compare=False)
    """What says how ``url`` is now; None where it stays."""


O = TypeVar("O", bound=BrokerOptions)  # noqa: E741 - of options


async def present(options: O) -> O:
    """The options with the URL as it is now. Raises BrokerUnreachable where a command gives no password."""
    if options.live is None:
        return options
    try:
        url = await options.live.present()
    except StorageUnavailable as error:
        raise BrokerUnreachable(str(error)) from None
    return options if url == options.url else replace(options, url=url)


@contextmanager
def renewed(options: BrokerOptions) -> Iterator[None]:
    """A login that is refused asks for another password the next time."""
    try:
        yield
    except BrokerRefused:
        if options.live is not None:
            options.live.refused()
        raise
