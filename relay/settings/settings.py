"""The environment as frozen settings.

``Settings.from_process()`` is what a program calls; ``Settings.from_env(environ)`` is the same with an environment
that was handed in. Both raise ConfigError with every problem at once, each by variable and value (secrets masked)
and with what is allowed, before anything connects. What is accepted but not done exactly as written is in
``settings.warnings``, to be logged at the start. Importing this module imports no broker library.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import Field, SecretStr, ValidationError

from relay.brokers import kinds
from relay.core.errors import ConfigError
from relay.core.known_secrets import secrets_in
from relay.core.secrets import is_secret
from relay.settings import combinations, former, secret_files, unknown
from relay.settings.dotenv import read_dotenv
from relay.settings.service_links import without_links
from relay.settings.variables import NAMES, Variables

_OTEL_PREFIX = "OTEL_"
_EFFECTIVE_ACKS = {"all": "all", "one": "one", "none": "one"}


class Settings(Variables):
    """Every variable's value: fields are named like the variables, times are seconds, sizes bytes.

    Secrets are ``SecretStr``: ``settings.storage_url.get_secret_value()``. Values are those in effect:
    ``kafka_async`` is never true, ``kafka_required_acks`` never ``none``, and a secret from a file is in the
    variable's own field.
    """

    otel: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """Every ``OTEL_*`` variable as it stands; may hold secrets."""
    of_others: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """The variables of a destination of another package, as they stand; may hold secrets."""
    warnings: tuple[str, ...] = ()
    """What was accepted but is not done exactly as written; one sentence each."""
    ignored: tuple[str, ...] = ()
    """Of these, what is about variables that have no effect at all."""

    def secrets(self) -> frozenset[str]:
        """The secrets themselves, and of a URL its password: to be masked in whatever is written."""
        # A command is not shown, yet most of its words are none: hosts, users, paths.
        shown = (value for name, value in self if not name.endswith("_password_command"))
        values = [value.get_secret_value() for value in shown if isinstance(value, SecretStr)]
        headers = ",".join(text for name, text in self.otel.items() if name.endswith("_HEADERS"))
        pairs = [(name, unquote(value)) for name, _, value in (one.partition("=") for one in headers.split(","))]
        values += [value for name, value in (*self.of_others.items(), *pairs) if is_secret(name)]
        return frozenset(word for value in values for word in secrets_in(value))

    def required(self, variable: str) -> str:
        """The value of a variable that holds a secret. Raises ConfigError where it is not set."""
        secret: SecretStr | None = getattr(self, variable.lower())
        if secret is None:
            raise ConfigError(f"{variable} is not set")
        return secret.get_secret_value()

    @classmethod
    def from_process(
        cls, *, overrides: Mapping[str, str] | None = None, only: Collection[str] | None = None
    ) -> Settings:
        """From the environment of this process and ``.env`` in its working directory."""
        return cls.from_env(os.environ, Path(".env"), overrides=overrides, only=only)

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str],
        dotenv: Path | None = None,
        *,
        overrides: Mapping[str, str] | None = None,
        only: Collection[str] | None = None,
    ) -> Settings:
        """From ``environ``, and where a variable is unset or empty there, from the file ``dotenv`` if it exists.

        ``overrides`` (a tool's options) win over both. A tool that needs a few variables names them in ``only``:
        all others keep their defaults, whatever they are set to. All variables are the settings of a relay, which opens
        no file of the console's secrets. Raises ConfigError.
        """
        problems: list[str] = []
        environ, links = without_links(environ, NAMES)
        file = read_dotenv(dotenv, environ, problems) if dotenv is not None else {}
        names = frozenset(NAMES if only is None else only)
        of_a_relay = names.issuperset(NAMES)
        used = names - secret_files.OF_THE_CONSOLE if of_a_relay else names
        values, failed = secret_files.from_files(
            secret_files.merged((file, environ, overrides or {}), used, problems), used, problems
        )
        chosen = {name.lower(): value for name, value in values.items() if name in names.intersection(NAMES)}
        texts, undecodable = _utf8(chosen, problems)
        variables, bad = _read(texts, problems)
        silent = bad | undecodable | failed | (frozenset(NAMES) - names)
        problems += combinations.about(lambda of: combinations.problems(of, values), variables, silent)
        ignored = former.findings(values, None if of_a_relay else names, problems) + links
        if problems:
            raise ConfigError("\n".join(problems))
        effective = _effective(variables, values)
        ours = {name: value for name, value in values.items() if name not in effective["of_others"]}
        ignored += [*(unknown.of_the_console(values) if of_a_relay else ()), *unknown.findings(ours, names)]
        warnings = combinations.about(combinations.cautions, variables, silent) + ignored
        effective |= {"warnings": tuple(warnings), "ignored": tuple(ignored)}
        return cls.model_construct(**{**dict(variables), **effective})


def _effective(variables: Variables, values: Mapping[str, str]) -> dict[str, Any]:
    """What differs from the variables as written, and what other standards and packages declare."""
    kind = kinds.find(variables.publisher_type)
    own = kind.prefixes if kind is not None and kind.build is not None else ()
    return {
        "kafka_async": False,
        "kafka_required_acks": _EFFECTIVE_ACKS[variables.kafka_required_acks],
        "otel": {name: value for name, value in values.items() if name.startswith(_OTEL_PREFIX)},
        "of_others": {name: value for name, value in values.items() if name.startswith(own)},
    }


def _utf8(chosen: Mapping[str, str], problems: list[str]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the values that are UTF-8 text, and the names of the others: a database stores no other bytes."""
    texts = {field: value for field, value in chosen.items() if _encodable(value)}
    others = frozenset(field.upper() for field in chosen.keys() - texts.keys())
    problems += [f"{name}: is not UTF-8 text" for name in sorted(others)]
    return texts, others


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(chosen: dict[str, Any], problems: list[str]) -> tuple[Variables, frozenset[str]]:
    """The values, with defaults in place of wrong ones; appends problems to ``problems``, returns their names."""
    try:
        return Variables(**chosen), frozenset()
    except ValidationError as error:
        bad: set[str] = set()
        for detail in error.errors(include_url=False, include_input=False):
            if detail["type"] == "default_factory_not_called":
                continue  # its own value is fine, only another one is not
            field = str(detail["loc"][0])
            reason = detail.get("ctx", {}).get("error", detail["msg"])
            problems.append(f"{field.upper()}: {reason}")
            bad.add(field)
    valid = {field: value for field, value in chosen.items() if field not in bad}
    return Variables(**valid), frozenset(field.upper() for field in bad)
