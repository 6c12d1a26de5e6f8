"""Login to NATS by key: a credentials file (a JWT and its NKey seed) or an NKey seed alone.

The files are read and checked here: on a file without its markers the client library would loop without end. Raises
ConfigError with the name of the file and never with its content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nkeys
from nats.aio.client import RawCredentials

from relay.core.errors import ConfigError

_PART = r"-----BEGIN {0}-----\s+(\S+)\s+-+END {0}-+"
_JWT = re.compile(_PART.format("NATS USER JWT"))
_SEED = re.compile(_PART.format("USER NKEY SEED"))


def identity_arguments(files: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of nats-py's ``connect`` for the parameters ``credentials`` and ``nkey_seed``."""
    if "credentials" in files and "nkey_seed" in files:
        raise ConfigError("PUBLISHER_URL: credentials and nkey_seed exclude one another; name one file")
    if "credentials" in files:
        return {"user_credentials": _credentials(files["credentials"])}
    if "nkey_seed" in files:
        return {"nkeys_seed_str": _seed(_read("nkey_seed", files["nkey_seed"]), "nkey_seed", files["nkey_seed"])}
    return {}


def _credentials(path: str) -> RawCredentials:
    text = _read("credentials", path)
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if jwt is None or seed is None:
        missing = "NATS USER JWT" if jwt is None else "USER NKEY SEED"
        raise ConfigError(f"PUBLISHER_URL: the credentials file {path!r} has no part {missing}")
    _seed(seed[1], "credentials", path)
    # The layout that the library expects: each marker on a line of its own, the value on the next.
    return RawCredentials(
        f"-----BEGIN NATS USER JWT-----\n{jwt[1]}\n------END NATS USER JWT------\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed[1]}\n------END USER NKEY SEED------\n"
    )


def _seed(text: str, parameter: str, path: str) -> str:
    try:
        nkeys.from_seed(text.strip().encode()).wipe()
    except (nkeys.NkeysError, ValueError, IndexError, TypeError):
        raise ConfigError(f"PUBLISHER_URL: {parameter}={path!r} holds no NKey seed; one begins with SU") from None
    return text.strip()


def _read(parameter: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"PUBLISHER_URL: {parameter}={path!r} cannot be read: {reason}") from None
