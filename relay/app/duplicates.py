"""The time for which NATS drops a repeated event, from the streams of this environment."""

from __future__ import annotations

import asyncio

from relay.core.errors import ConfigError
from relay.settings.settings import Settings


def duplicate_window(settings: Settings, alternative: str = "") -> float:
    """The longest duplicate window of all streams, in seconds; 0 for a publisher that is not NATS.

    Raises BrokerUnreachable when NATS does not answer, ConfigError without PUBLISHER_URL or nats-py; ``alternative``
    says what to do instead of setting the URL.
    """
    if settings.destinations_file is not None:
        from relay.settings.destinations_file import read_destinations  # noqa: PLC0415 - only with the file

        return max(_window(own, alternative) for own in read_destinations(settings).values())
    return _window(settings, alternative)


def _window(settings: Settings, alternative: str) -> float:
    if settings.publisher_type != "nats":
        return 0.0
    if settings.publisher_url is None:
        raise ConfigError(f"PUBLISHER_URL is not set; set it{alternative}")
    from relay.app.publishers import nats_options  # noqa: PLC0415 - the whole composition, which most commands do without

    options = nats_options(settings)  # before the next import: it names the extra when nats-py is missing
    from relay.brokers.nats.streams import read_streams  # noqa: PLC0415 - nats-py only where it is used

    streams = asyncio.run(read_streams(options))
    return max((stream.duplicate_window for stream in streams), default=0.0)
