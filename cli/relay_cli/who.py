"""Who runs a command, for the records of what operators do."""

from __future__ import annotations

import getpass
import socket


def user_and_host() -> str:
    """The user and host that a record names beside the database user."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
