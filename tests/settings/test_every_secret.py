"""Every variable with a secret, in every wrong form: no three characters of it are in any output."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.errors import ConfigError
from relay.postgres.url import connection_parameters
from relay.settings.locations import log_location, outbox_location
from relay.settings.secret_files import BY_FILE
from relay.settings.settings import Settings
from relay.settings.shown import settings_json
from relay.settings.variables import Variables

SECRET = st.text("jqvxzJQVXZ", min_size=6, max_size=24)
"""Of characters of which no message has three in a row."""


HIDDEN: Final = sorted(name.upper() for name, field in Variables.model_fields.items() if "Secret" in repr(field))
"""Every variable whose value is never shown."""
PLACES: Final = [(name, by_file) for name in HIDDEN for by_file in (False, True) if not by_file or name in BY_FILE]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: Final[dict[str, Callable[[str, str], str]]] = {
    "the password alone": lambda secret, url: secret,
    "in quotes": lambda secret, url: f'"{url}"',
    "a line of .env": lambda secret, url: f"URL={url}",
    "encoded": lambda secret, url: encoded(url),
    "encoded twice": lambda secret, url: encoded(encoded(url)),
    "with a blank": lambda secret, url: url.replace("@", " @"),
    "with half an escape": lambda secret, url: url.replace("@", "%@"),
    "of another scheme": lambda secret, url: url.replace("postgres", "mysql"),
    "without a scheme": lambda secret, url: url.partition("://")[2],
    "as JSON": lambda secret, url: json.dumps({"url": url}),
    "with a slash in the password": lambda secret, url: url.replace(secret, f"{secret}/{secret}"),
    "with a question mark in the password": lambda secret, url: url.replace(secret, f"{secret}?{secret}=1"),
    "as a port": lambda secret, url: f"postgres://u@h:{secret}/d",
    "as a parameter": lambda secret, url: f"postgres://u@h/d?password={secret}&sslmode=none",
}


def outputs(variable: str, environ: dict[str, str], text: str) -> Iterator[str]:
    """All that a relay, the console and a command say of it."""
    of_all = {
        "STORAGE_URL": "postgres://u@h/d",
        "PUBLISHER_TYPE": "http",
        "PUBLISHER_URL": "https://h/",
        "RELAY_ID": "r",
    }
    if variable in of_all or f"{variable}_FILE" in environ:
        of_all.pop(variable, None)
    try:
        accepted = Settings.from_env(of_all | environ)
    except ConfigError as error:
        yield str(error)
    else:
        yield repr(accepted) + settings_json(accepted) + " ".join(accepted.warnings)
    try:
        yield repr(Settings.from_env(environ, only={variable}))
    except ConfigError as error:
        yield str(error)
    for read in (outbox_location, log_location):
        try:
            read(environ)
        except ConfigError as error:
            yield str(error)
    try:
        connection_parameters(text, "", source=variable)
    except ConfigError as error:
        yield str(error)


def test_every_variable_that_a_file_may_hold_and_every_command_is_hidden() -> None:
    commands = [name.upper() for name in Variables.model_fields if name.endswith("_password_command")]
    assert sorted([*BY_FILE, *commands]) == HIDDEN


@pytest.mark.parametrize(
    ("variable", "by_file"), PLACES, ids=lambda value: value if isinstance(value, str) else f"file-{value}"
)
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=SECRET)
def test_no_three_characters_are_shown(variable: str, form: str, by_file: bool, secret: str, tmp_path: Path) -> None:
    text = FORMS[form](secret, f"postgres://user:{secret}@h:5432/d")
    environ = {variable: text}
    if by_file:
        (tmp_path / "value").write_text(text)
        environ = {f"{variable}_FILE": str(tmp_path / "value")}
    said = "\n".join(outputs(variable, environ, text))
    pieces = [*parts(secret, 3), *parts(encoded(f"postgres://user:{secret}@h:5432/d"), 12)]
    assert [piece for piece in pieces if piece in said] == [], said


def parts(text: str, length: int) -> Iterator[str]:
    """All that it holds of this length."""
    yield from (text[at : at + length] for at in range(len(text) - length + 1))
