"""The time for which a destination drops a repeated event, as NATS does, from the streams of this environment."""

from __future__ import annotations

import asyncio
from typing import Final

from relay.brokers import kinds
from relay.core.errors import ConfigError
from relay.settings.settings import Settings

VARIABLES: Final = (
    *("DESTINATIONS_FILE", "PUBLISHER_TYPE", "PUBLISHER_URL"),
    *("NATS_CONNECTION_TIMEOUT", "NATS_PASSWORD_COMMAND"),
)
"""What ``duplicate_window`` needs of the environment."""


def duplicate_window(settings: Settings, alternative: str = "") -> float:
    """The longest duplicate window of all streams, in seconds; 0 for a publisher that drops none.

    Raises BrokerUnreachable when the broker does not answer, ConfigError without PUBLISHER_URL or its client;
    ``alternative`` says what to do instead of setting the URL.
    """
    if settings.destinations_file is not None:
        from relay.settings.destinations_file import read_destinations  # noqa: PLC0415 - only with the file

        return max(_window(own, alternative) for own in read_destinations(settings).values())
    return _window(settings, alternative)


def _window(settings: Settings, alternative: str) -> float:
    kind = kinds.find(settings.publisher_type)
    if kind is None or not kind.window:
        return 0.0
    if settings.publisher_url is None:
        raise ConfigError(f"PUBLISHER_URL is not set; set it{alternative}")
    from relay.app.publishers import options_of  # noqa: PLC0415 - the whole composition, which most commands do without

    options = options_of(settings)  # before the next import: it names the extra when the client is missing
    return asyncio.run(kinds.load(kind.window)(options))  # type: ignore[no-any-return]
