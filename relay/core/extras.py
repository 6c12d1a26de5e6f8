"""Optional libraries: which extra of the package brings one, and the command that installs it.

The commands name a checkout or the wheels: no package index has the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from relay.core.errors import ConfigError
from relay.version import NUMBER

_PACKAGE: Final = "relay"  # a missing module of this package is a fault of the installation, which no extra corrects


@contextmanager
def requires(extra: str, purpose: str) -> Iterator[None]:
    """Import what ``extra`` brings within this block; ``purpose`` is the setting that needs it.

    Raises ConfigError, with the command that installs the extra, when a library is missing, and ConfigError with the
    reason when one is installed and cannot be loaded.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or str(error)).partition(".")[0]
        if library == _PACKAGE:
            raise
        message = f"{purpose}: the Python library {library} is not installed. {install_advice(extra)}"
        raise ConfigError(message) from error
    except ImportError as error:
        message = f"{purpose}: the Python library {error.name} cannot be loaded: {error}. {install_advice(extra)}"
        raise ConfigError(message) from error


def install_advice(extra: str) -> str:
    """Return the sentence that says how to install an extra."""
    client, relay = (f"openoutbox_{name}-{NUMBER}-py3-none-any.whl" for name in ("client", "relay"))
    checkout = f"pip install ./client '.[{extra}]'"
    return f"Install it from a checkout: {checkout}, or with the wheels: pip install {client} '{relay}[{extra}]'"
