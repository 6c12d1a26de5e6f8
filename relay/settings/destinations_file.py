"""DESTINATIONS_FILE: several destinations of one relay, each as settings of its own.

The file is TOML, a table for each destination: ``type``, ``url`` or ``url_file``, and the variables of that type in
small letters. Each becomes a ``Settings`` with these values and the relay's own for all else, checked by the same rules
as variables are, so that whatever builds or examines a publisher works on it unchanged. No value of the file is shown
unless it would be as a variable: an error names the file, the destination and the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from relay.brokers import kinds
from relay.core.errors import ConfigError
from relay.settings import combinations
from relay.settings.destinations import DestinationVariables
from relay.settings.settings import Settings
from relay.settings.toml import read_toml, unknown_key
from relay.settings.variables import NAMES

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_EXAMPLE: Final = 'write for example [main] and below it url = "kafka://host:9092"'
_WHERE: Final = {"type": "PUBLISHER_TYPE", "url": "PUBLISHER_URL", "url_file": "PUBLISHER_URL_FILE"}
_KEYS: Final = _WHERE | {"rate": "PUBLISHER_RATE"}
_OF_ALL: Final = ("MESSAGE_FORMAT", "CLOUDEVENTS_SOURCE")
"""Variables that belong to no type."""
_OPTIONS: Final = frozenset({*map(str.lower, _OF_ALL), *DestinationVariables.model_fields})
"""The variables of the types of destinations, in small letters."""


def read_destinations(settings: Settings) -> dict[str, Settings]:
    """The settings of each destination by its name, in the order of the file; empty without DESTINATIONS_FILE.

    ``warnings`` of each are those that this destination adds. Raises ConfigError with every problem.
    """
    path = settings.destinations_file
    if path is None:
        return {}
    content = read_toml(path, "DESTINATIONS_FILE", _EXAMPLE)
    problems: list[str] = [] if content else [f"it holds no destination; {_EXAMPLE}"]
    read: dict[str, Settings] = {}
    for name, table in content.items():
        if not _NAME.fullmatch(name):
            rule = "the name has at most 63 letters, digits, dots, hyphens and underscores, a letter first"
            problems.append(f"destination {name}: {rule}")
        elif not isinstance(table, dict):
            problems.append(f"destination {name}: it is not a table; {_EXAMPLE}")
        else:
            one, wrong = read_destination(name, table, settings)
            read |= {} if one is None else {name: one}
            problems += [f"destination {name}: {problem}" for problem in wrong]
    problems += _transactions(read, settings)
    if problems:
        raise ConfigError("\n".join(f"DESTINATIONS_FILE: {path}: {problem}" for problem in problems))
    return read


def read_destination(
    name: str, table: Mapping[str, Any], settings: Settings, keys: Mapping[str, str] = _KEYS
) -> tuple[Settings | None, list[str]]:
    """One destination, and its problems. ``keys`` are those of the file that are not a variable in small letters."""
    problems: list[str] = []
    values = _variables(table, keys, problems)
    if not values.keys() & set(_WHERE.values()):
        return None, problems or [f"it has neither url nor type; {_EXAMPLE}"]
    given = {name for variable in values for name in (variable, variable.removesuffix("_FILE")) if name in NAMES}
    try:
        own = Settings.from_env(values, only=given | set(_KEYS.values()))
        _check_type(values, own.publisher_type)
    except ConfigError as error:
        return None, [*problems, *with_keys(str(error), keys).splitlines()]
    changed: dict[str, Any] = {variable.lower(): getattr(own, variable.lower()) for variable in given}
    changed |= {"publisher_url": own.publisher_url, "publisher_type": own.publisher_type, "publisher_name": name}
    changed |= {"of_others": own.of_others}
    changed |= {"route_prefix": "", "routes_file": None, "destinations_file": None}
    if own.publisher_type != "kafka":
        changed["kafka_transactions"] = False
    one = settings.model_copy(update=changed)
    issues = combinations.about(combinations.problems, one, ("STORAGE_URL",))  # of which some commands know nothing
    if problems or issues:
        return None, [*problems, *(with_keys(text, keys) for text in issues)]
    of_all = {"CLOUDEVENTS_SOURCE"} - given  # set for all destinations: it may serve another one
    said = (*own.warnings, *settings.warnings)
    warnings = (
        *own.warnings,
        *(text for text in combinations.about(combinations.cautions, one, of_all) if text not in said),
    )
    return one.model_copy(update={"warnings": tuple(with_keys(text, keys) for text in warnings)}), []


def _transactions(read: Mapping[str, Settings], settings: Settings) -> Iterator[str]:
    """What does not go together with them. A transaction holds its events' leases, and a lease is held by one alone."""
    transacted = [name for name, own in read.items() if own.kafka_transactions]
    if len(transacted) > 1:
        yield (
            f"destinations {' and '.join(transacted)}: kafka_transactions is for one destination; write "
            "kafka_transactions = false for the others, which get each event at least once"
        )
    elif settings.kafka_transactions and read and not transacted:
        yield "KAFKA_TRANSACTIONS=true needs a destination of the type kafka; add one, or unset KAFKA_TRANSACTIONS"


def _check_type(values: Mapping[str, str], kind: str) -> None:
    """Raise ConfigError for variables of another type."""
    row = kinds.find(kind)
    prefixes = row.prefixes if row is not None else ()
    own = (*_KEYS.values(), *_OF_ALL)
    foreign = [variable.lower() for variable in values if variable not in own and not variable.startswith(prefixes)]
    if foreign:
        raise ConfigError(f"{', '.join(foreign)}: not of the type {kind}; remove it, or correct the type")


def _variables(table: Mapping[str, Any], keys: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """The values by the names of the variables that they stand for."""
    values: dict[str, str] = {}
    for key, value in table.items():
        small = key.lower()
        variable = keys.get(small) or (small.upper() if small in _OPTIONS or _of_others(small) else "")
        if not variable:
            known = [*keys, *sorted(_OPTIONS)]
            problems.append(unknown_key(key, known, f"write {', '.join(keys)} or a variable of the type"))
        elif variable in values:
            problems.append(f"{key!r} is there twice, in upper and lower case; keep one of them")
        elif isinstance(value, list) and value and all(type(one) is int for one in value):
            values[variable] = ",".join(map(str, value))
        elif isinstance(value, bool):
            values[variable] = str(value).lower()
        elif isinstance(value, str | int | float) and str(value):
            values[variable] = str(value)
        else:
            problems.append(f"{key}: it must be a string, a number, true or false, and not empty")
    return values


def _of_others(key: str) -> bool:
    """Whether it is a variable of another package's kind of destination."""
    return any(key.upper().startswith(kind.prefixes) for kind in kinds.of_others()[0].values())


def with_keys(text: str, keys: Mapping[str, str]) -> str:
    """An error in the words of the file."""
    for key, variable in sorted(keys.items(), reverse=True):  # url_file before url
        text = re.sub(rf"\b{variable}\b", key, text)
    return text
