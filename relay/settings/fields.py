"""How a variable is declared: a field of a group, with its kind, default and meaning.

For the modules that declare variables: ``variables`` and ``destinations``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from relay.settings.value_kinds import kind, words


def choice(*allowed: str) -> tuple[Any, ...]:
    """The kind of a variable that is one of these words."""
    return kind(", ".join(allowed), words(*allowed))


def variable(default: object, meaning: str, *, shown: str = "") -> Any:  # noqa: ANN401 - as Field itself
    """A field with its default and meaning; ``shown`` describes one that is not a plain text, None as unset."""
    extra: dict[str, JsonValue] = {"shown": shown or ("unset" if default is None else str(default))}
    if callable(default):
        factory: Callable[..., Any] = default
        return Field(default_factory=factory, description=meaning, json_schema_extra=extra)
    return Field(default=default, description=meaning, json_schema_extra=extra)


def instead_of(name: str, value: str) -> Any:  # noqa: ANN401 - as ``variable``
    """The variable for a file that holds the value of variable ``name``: its URL, token or key."""
    return variable(None, f"File that holds the {value}, instead of {name}.")


class VariableGroup(BaseModel):
    """Variables that belong together; the docstring of each is its heading."""

    # defer_build: of these classes only ``Variables`` is ever validated. Building a validator takes 10 to 20 ms of CPU.
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True, defer_build=True
    )
