"""Files that PUBLISHER_URL or variables name: certificates, keys, credentials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from relay.core.errors import ConfigError


def check_files(
    parameters: Mapping[str, object], names: Iterable[str], variables: Mapping[str, str] | None = None
) -> None:
    """Raise ConfigError, naming parameter and path, for a file of these parameters that cannot be read.

    ``variables`` names the variable that a parameter came from; None for parameters of PUBLISHER_URL.
    The client libraries say only that something failed, and some of them only when they connect.
    """
    for name in names:
        path = parameters.get(name)
        if not path or not isinstance(path, str):
            continue
        try:
            if not Path(path).is_dir():  # a folder of certificates
                Path(path).open("rb").close()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a path"
            shown = variables[name] if variables else f"PUBLISHER_URL: {name}"
            raise ConfigError(f"{shown}={path!r} cannot be read: {reason}; correct the path") from None
