"""One client of the AWS SDK with connections of its own, and how it is made and ended.

The SDK looks credentials up by its standard chain when the client is made, and
renews those that end.

The SDK's own resends are off: they would hide from the engine what fails, and hold its events longer than it knows.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import cache
from typing import Any, Final

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.loaders import Loader
from botocore.session import Session

from relay.brokers.aws.bounded import BoundedSession
from relay.brokers.aws.errors import reason
from relay.brokers.aws.options import AwsOptions, AwsTarget
from relay.brokers.aws.sockets import Sockets
from relay.core.errors import BrokerUnreachable, ConfigError

_IDLE: Final = 10.0  # seconds after which an unused connection is closed, before the service does so
_NO_READ_TIMEOUT: Final = 3600.0  # seconds; the session has its own
_CLOSING: Final = 1.0  # seconds for the connections to be gone


class AwsClient:
    """The client of one service; ``connect`` makes one. It connects when it is asked something."""

    def __init__(self, stack: AsyncExitStack, api: Any, sockets: Sockets) -> None:  # noqa: ANN401 - made from the model
        self.api = api
        """The SDK's client."""
        self.sockets = sockets
        self._stack = stack

    @classmethod
    async def connect(cls, service: str, options: AwsOptions, target: AwsTarget, *, reuse: bool = True) -> AwsClient:
        """Find credentials and make the client. Raises BrokerUnreachable.

        Without ``reuse`` it opens a connection for each request, so that none fails because the service has closed one.
        """
        sockets, stack = Sockets(), AsyncExitStack()
        config = AioConfig(
            connect_timeout=options.connection_timeout,
            read_timeout=_NO_READ_TIMEOUT,
            max_pool_connections=0,  # no limit but the session's: one that hangs must not take those of others
            retries={"total_max_attempts": 1, "mode": "standard"},
            http_session_cls=BoundedSession,
            connector_args={"keepalive_timeout": _IDLE, "socket_factory": sockets.make}
            if reuse
            else {"force_close": True, "keepalive_timeout": None, "socket_factory": sockets.make},
        )
        session = AioSession()
        session.register_component("data_loader", _loader())
        try:
            api = await stack.enter_async_context(
                session.create_client(
                    service,
                    region_name=target.region,
                    endpoint_url=target.endpoint,
                    verify=target.tls_ca,
                    config=config,
                )
            )
        except (BotoCoreError, ValueError, OSError) as error:
            await stack.aclose()
            raise BrokerUnreachable(f"{target}: {reason(error)}") from None
        except asyncio.CancelledError:
            await stack.aclose()
            raise
        return cls(stack, api, sockets)

    async def close(self) -> None:
        """Cut the connections; never raises."""
        self.sockets.cut()
        try:
            async with asyncio.timeout(_CLOSING):
                await self._stack.aclose()
        except (TimeoutError, OSError, RuntimeError):  # cut already
            return


def prepare(kind: str, target: AwsTarget) -> None:
    """Read the SDK's files for the service, which takes long, so that no client has to; call it in a thread.

    Raises ConfigError for a region or endpoint that cannot be.
    """
    session = Session()
    session.register_component("data_loader", _loader())
    try:
        session.create_client(
            kind,
            region_name=target.region,
            endpoint_url=target.endpoint,
            config=Config(signature_version=UNSIGNED),
        ).close()
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"PUBLISHER_URL is not usable for {kind.upper()}: {error}") from None


@cache
def _loader() -> Loader:
    """The SDK's loader of files, which remembers what it has read."""
    return Loader(include_default_search_paths=True)
