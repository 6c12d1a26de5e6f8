"""How the text of an option becomes its value.

Each option that is not plain text or a flag names its parser, with typer's own ``parser=``; this module has them and
runs them. typer would run them through pydantic: its import costs each command 75 ms of processor time, and its
messages name neither the value nor what is allowed.
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

import typer

from relay.core.durations import parse_bound, parse_duration

Parser = Callable[..., Any]
Choice = TypeVar("Choice", bound=StrEnum)

_PLAIN: Final = (str, bool, str | None, bool | None, list[str], list[str] | None)
"""Types of values that are the option's text, or whether the option is there."""
_LONGEST_AGE: Final = 36_525 * 86_400.0  # seconds, a hundred years


def read_values(command: Any) -> None:  # noqa: ANN401 - a class that typer does not export
    """Let each parameter of ``command`` read its values here, also those that typer adds, such as ``--help``."""
    if hasattr(command, "_typers_params"):
        return
    command._typers_params = command.get_params  # noqa: SLF001 - ours, on their object
    hints = get_type_hints(inspect.unwrap(command.callback), include_extras=True) if command.callback else {}

    def get_params(ctx: Any) -> list[Any]:  # noqa: ANN401 - as above
        params: list[Any] = command._typers_params(ctx)  # noqa: SLF001 - as above
        for parameter in params:
            if not isinstance(parameter.process_value, _Reader):
                parser = _parser(parameter, hints.get(parameter.name))
                if parser is not None:
                    parameter.process_value = _Reader(parameter, parser)
        return params

    command.get_params = get_params


class _Reader:
    """Takes the place of a parameter's ``process_value``."""

    def __init__(self, parameter: Any, parser: Parser) -> None:  # noqa: ANN401 - as above
        self._parameter = parameter
        self._parser = parser
        self._complain_of_none: Parser = parameter.process_value

    def __call__(self, ctx: Any, value: Any) -> Any:  # noqa: ANN401 - as above
        parameter = self._parameter
        several = parameter.multiple or parameter.nargs == -1
        if parameter.required and value in (None, ()):
            return self._complain_of_none(ctx, value)
        if several:
            value = [self._parser(each) for each in value or ()] or None
        elif value is not None:
            value = self._parser(value)
        return value if parameter.callback is None else parameter.callback(ctx, parameter, value)


def _parser(parameter: Any, hint: object) -> Parser | None:  # noqa: ANN401 - as above
    """The parser of a parameter; None leaves its values to typer."""
    if hint is None:  # an option that typer adds: a flag
        return _unchanged if parameter.is_flag else None
    inner, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    named: Parser | None = next((extra.parser for extra in extras if getattr(extra, "parser", None)), None)
    if named is not None:
        return lambda value: named(value) if isinstance(value, str) else value
    return _unchanged if inner in _PLAIN else None


def _unchanged(value: object) -> object:
    return value


def whole(least: int, most: int | None = None) -> Parser:
    """Whole numbers from ``least`` to ``most``."""
    return _number(int, "whole number", least, most)


def number(least: float) -> Parser:
    """Numbers from ``least``."""
    return _number(float, "number", least, None)


def _number(kind: type[int] | type[float], noun: str, least: float, most: float | None) -> Parser:
    allowed = f"a {noun} from {least} to {most}" if most is not None else f"a {noun} of at least {least}"

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= (math.inf if most is None else most):
            raise typer.BadParameter(f"{text!r} is not {allowed}")
        return value

    return parse


def choice(values: type[Choice]) -> Parser:
    """The member of ``values`` that the text names, in upper or lower case."""

    def parse(text: str) -> Choice:
        try:
            return values(text.lower() if text.lower() in set(values) else text.upper())
        except ValueError:
            names = [each.value.lower() for each in values]
            near = difflib.get_close_matches(text.lower(), names, 1)
            suggestion = f"; did you mean {near[0]}?" if near else ""
            raise typer.BadParameter(f"{text!r} is none of {', '.join(names)}{suggestion}") from None

    return parse


def choices(values: type[StrEnum]) -> Callable[[str], list[str]]:
    """The names of ``values`` that begin as the user has typed, for the shell's completion."""
    return lambda incomplete: [
        each.value.lower() for each in values if each.value.lower().startswith(incomplete.lower())
    ]


def age(text: str) -> float:
    """An age in seconds. Raises BadParameter for an invalid one."""
    try:
        seconds = parse_duration(text) if text.strip() else 0.0
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if seconds > _LONGEST_AGE:
        raise typer.BadParameter(f"{text!r} is longer than a hundred years")
    return seconds


def days(text: str) -> int:
    """A number of days, written ``7`` or ``7d``. Raises BadParameter for anything else."""
    number = text.strip().removesuffix("d")
    if not number.isdecimal() or int(number) * 86_400 > _LONGEST_AGE:
        raise typer.BadParameter(f"{text!r} is not a number of days, such as 7 or 7d, up to a hundred years")
    return int(number)


def pause(text: str) -> float:
    """A pause in seconds, written ``2`` or as a duration; 0.1 s at least. Raises BadParameter for anything else."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = age(text)
    if not 0.1 <= seconds <= _LONGEST_AGE:
        raise typer.BadParameter(f"{text!r} is not a pause of at least 0.1 s; write for example 2, 500ms or 1m")
    return seconds


def bound(text: str) -> Any:  # noqa: ANN401 - a datetime or timedelta: a union is no type for typer
    """A time with its zone, or an age before now. Raises BadParameter for an invalid one."""
    try:
        return parse_bound(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def moment_with_zone(text: str) -> Any:  # noqa: ANN401 - a datetime; the annotation of the option says so
    """A time with its zone. Raises BadParameter for anything else."""
    value = bound(text)
    if not isinstance(value, datetime):
        raise typer.BadParameter(f"{text!r} is not a time with its zone, such as 2030-01-31T12:00:00Z")
    return value


def event_id(text: str) -> UUID:
    """An event's id. Raises BadParameter for an invalid one."""
    return _uuid(text, "an event's id", "relay-cli list shows them")


def tenant_id(text: str) -> str:
    """A tenant's id, as it was written. Raises BadParameter for an invalid one."""
    _uuid(text, "a tenant's id", "relay-cli tenant list shows them")
    return text


def stream_id(text: str) -> str:
    """A stream's id, as it was written. Raises BadParameter for an invalid one."""
    _uuid(text, "a stream's id", "relay-cli store tail shows them")
    return text


def _uuid(text: str, noun: str, advice: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not {noun}, which is a UUID; {advice}") from None


def existing_file(text: str) -> Path:
    """The path of a file that can be read. Raises BadParameter for another one."""
    path = Path(text)
    if not path.is_file():
        raise typer.BadParameter(f"{text!r} {'is a folder' if path.is_dir() else 'does not exist'}")
    return path
