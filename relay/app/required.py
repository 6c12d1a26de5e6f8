"""The value of a secret that a part of the composition needs."""

from __future__ import annotations

import os

from pydantic import SecretStr

from relay.core.errors import ConfigError
from relay.settings.missing import missing


def required(secret: SecretStr | None, name: str) -> str:
    """The secret's value. Raises ConfigError where it is not set, with what to do."""
    if secret is None:
        raise ConfigError(missing(name, os.environ))
    return secret.get_secret_value()
