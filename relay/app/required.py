"""The value of a secret that a part of the composition needs."""

from __future__ import annotations

from pydantic import SecretStr

from relay.core.errors import ConfigError


def required(secret: SecretStr | None, name: str) -> str:
    """The secret's value. Raises ConfigError, naming the variable, where it is not set."""
    if secret is None:
        raise ConfigError(f"{name} is not set")
    return secret.get_secret_value()
