"""SERVER_PORT alone, for ``relay --healthcheck``: a container engine runs it every few seconds.

It reads the environment and ``.env`` by the same functions as ``Settings``, without pydantic and psycopg.
"""

from __future__ import annotations

import os
from pathlib import Path

from relay.core.errors import ConfigError
from relay.settings import secret_files
from relay.settings.address import DEFAULT_SERVER_PORT, Address, parse_address
from relay.settings.dotenv import read_dotenv
from relay.settings.service_links import without_links


def server_address() -> Address:
    """Return where the relay of this environment listens. Raises ConfigError."""
    problems: list[str] = []
    file = read_dotenv(Path(".env"), os.environ, problems)
    environ, _ = without_links(os.environ, {"SERVER_PORT"})
    variables = secret_files.merged((file, environ), {"SERVER_PORT"}, problems)
    address = Address("", 0)
    try:
        address = parse_address(variables.get("SERVER_PORT", DEFAULT_SERVER_PORT))
    except ValueError as error:
        problems.append(f"SERVER_PORT: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    return address
