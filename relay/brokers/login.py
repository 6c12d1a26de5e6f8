"""The login of PUBLISHER_URL as it is now: from its file, with the password of its command.

For the kinds whose options have ``live``. A session asks for it before it connects, and says so when it was refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

from relay.core.errors import BrokerRefused, BrokerUnreachable, StorageUnavailable
from relay.core.origins import LiveUrl


class LiveOptions(Protocol):
    """What is asked of a broker's options, which are a dataclass."""

    @property
    def url(self) -> str:
        """PUBLISHER_URL as it was at the start."""

    @property
    def live(self) -> LiveUrl | None:
        """What says how it is now; None where it stays."""


O = TypeVar("O", bound=LiveOptions)  # noqa: E741 - of options


async def present(options: O) -> O:
    """The options with the URL as it is now. Raises BrokerUnreachable where a command gives no password."""
    if options.live is None:
        return options
    try:
        url = await options.live.present()
    except StorageUnavailable as error:
        raise BrokerUnreachable(str(error)) from None
    return options if url == options.url else replace(options, url=url)  # type: ignore[type-var]  # a dataclass


@contextmanager
def renewed(options: LiveOptions) -> Iterator[None]:
    """A login that is refused asks for another password the next time."""
    try:
        yield
    except BrokerRefused:
        if options.live is not None:
            options.live.refused()
        raise
