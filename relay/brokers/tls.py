"""TLS towards a broker, from the files that PUBLISHER_URL or variables name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from relay.brokers.files import check_files
from relay.core.errors import ConfigError

_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
TLS_FILES: Final = frozenset({"tls_ca", "tls_cert", "tls_key"})
"""The parameters of a URL that name them."""


def client_context(files: Mapping[str, str], variables: Mapping[str, str] | None = None) -> ssl.SSLContext:
    """The context for the current content of the files; the system's authorities without ``tls_ca``.

    ``variables`` names the variable of each file; None for parameters of PUBLISHER_URL. Raises ConfigError with
    variable or parameter, and path, for a file that cannot be used, and for a key alone.
    """
    named = {name: path for name, path in files.items() if name in TLS_FILES}
    shown_as, origin = variables or {}, "" if variables else "PUBLISHER_URL: "
    if "tls_key" in named and "tls_cert" not in named:
        key, certificate = (shown_as.get(name, name) for name in ("tls_key", "tls_cert"))
        raise ConfigError(f"{origin}{key} is set, and {certificate} is not: set both, or neither")
    check_files(named, named, variables)
    try:
        context = ssl.create_default_context(cafile=files.get("tls_ca"))
        if "tls_cert" in files:
            context.load_cert_chain(files["tls_cert"], files.get("tls_key"))
    except OSError as error:  # what ssl raises names no file
        shown = ", ".join(f"{shown_as.get(name, name)}={path!r}" for name, path in named.items())
        raise ConfigError(f"{origin}{shown}: not a PEM file of that kind: {error}") from None
    return context


def handshake_refused(error: BaseException | None) -> bool:
    """Whether an error comes from a TLS handshake that one side refused: not one that was cut."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and not isinstance(error, _CUT):
            return True
        error = error.__cause__ or error.__context__
    return False
