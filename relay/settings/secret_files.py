"""Variables with secrets may come from a file, as mounted secrets do: ``STORAGE_URL_FILE`` for ``STORAGE_URL``.

A file holds the value on one line; blanks around it, and a byte order mark, are not part of it. Which of a variable and
its file counts is decided where they are set: the shell's wins over ``.env``'s, and both in one place is an error.

A file is read again for each new connection (``relay.core.origins``), and a command may print the password.

A program names the variables that it uses: no other file is opened, and no other conflict matters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relay.core.origins import PasswordCommand

OF_THE_CONSOLE = frozenset({"API_TOKEN", "CONSOLE_SECRET", "CONSOLE_OIDC_CLIENT_SECRET"})
"""Secrets that the console alone uses: the relay leaves their files closed, which its user may not be able to read."""
BY_FILE = (
    *("STORAGE_URL", "PUBLISHER_URL", "HTTP_SECRETS", "HTTP_EGRESS_PROXY", "DELIVERY_LOG_URL"),
    *sorted(OF_THE_CONSOLE),
)
"""The variables that may come from a file."""
COMMANDS = {"STORAGE_URL": "STORAGE_PASSWORD_COMMAND"}
"""The command that prints the password of a URL's user."""
_LISTS = ("HTTP_SECRETS",)
"""Those with several values, which may stand on lines of their own."""


def merged(layers: Sequence[Mapping[str, str]], names: Collection[str], problems: list[str]) -> dict[str, str]:
    """The variables of all layers, later ones winning, empty ones left out.

    Without a line break at the end of a value: files end with one, and Kubernetes passes those of a Secret on as they
    are. A conflict about one of the ``names`` is appended to ``problems``.
    """
    values: dict[str, str] = {}
    for layer in layers:
        stripped = {name: value.rstrip("\r\n") for name, value in layer.items()}
        layer_values = {name: value for name, value in stripped.items() if value}
        for name in BY_FILE:
            either = {name, f"{name}_FILE"} & layer_values.keys()
            if len(either) == 2 and name in names:
                problems.append(f"{name} and {name}_FILE are both set; unset one of them")
            elif either:
                values.pop(name, None)
                values.pop(f"{name}_FILE", None)
        values |= layer_values
    return values


def from_files(
    values: Mapping[str, str], names: Collection[str], problems: list[str]
) -> tuple[dict[str, str], frozenset[str]]:
    """``values`` with what the files of the ``names`` variables hold, and the names of those that failed."""
    read, failed = dict(values), set()
    commands = _commands(values, names, problems)
    for name in BY_FILE:
        path = values.get(f"{name}_FILE")
        if name in values or path is None or name not in names:
            if name in values and name in commands:
                _remember(values[name], name, None, commands[name])
            continue
        again = partial(_value, name, path)
        try:
            read[name] = again()
        except ValueError as problem:
            problems.append(f"{name}_FILE: {path!r} {problem}")
            failed.add(name)
        else:
            _remember(read[name], f"{name}_FILE", again, commands.get(name))
    return read, frozenset(failed)


def _remember(value: str, variable: str, read: Callable[[], str] | None, command: PasswordCommand | None) -> None:
    from relay.core import origins  # noqa: PLC0415 - not for relay --healthcheck

    origins.remember(value, origins.SecretOrigin(variable, read, command))


def _commands(values: Mapping[str, str], names: Collection[str], problems: list[str]) -> dict[str, PasswordCommand]:
    """The commands for passwords, by the variable of the URL that each is for."""
    commands = {}
    for url, variable in COMMANDS.items():
        if url in names and variable in values:
            from relay.core.origins import PasswordCommand  # noqa: PLC0415 - likewise

            try:
                commands[url] = PasswordCommand(variable, values[variable])
            except ValueError:
                problems.append(f"{variable}: a quote in it is not closed")
    return commands


def _value(name: str, path: str) -> str:
    """What the file of a variable holds now. Raises ValueError with the fault, never with a part of it."""
    content = _content(path, "the URL" if name.endswith("_URL") else "the secret")
    return " ".join(content.split()) if name in _LISTS else _one_line(content)


def _content(path: str, kind: str) -> str:
    """The text of the file, which must hold ``kind``. Raises ValueError with the fault, never with a part of it."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError:
        raise ValueError("cannot be read: not UTF-8 text") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise ValueError(f"cannot be read: {reason}") from None
    if not text:
        raise ValueError(f"is empty; it must hold {kind}")
    return text


def _one_line(text: str) -> str:
    """Raise ValueError for a text of several lines."""
    if len(text.splitlines()) > 1:
        raise ValueError("holds more than one line; it must hold the value alone")
    return text
