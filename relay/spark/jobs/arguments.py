"""How a job describes its arguments, and the command line made from the description.

A job's arguments are a frozen dataclass below ``Arguments``. Each field is declared by ``option``, with its help and
its kind; the kind says how the option's text becomes the field's value. ``CommandLine`` makes the parser of
spark-submit, ``python -m`` and ``relay-cli spark`` from the class.

It uses argparse, since a cluster has both wheels and not all that relay-cli needs. Nothing here imports PySpark, so
that ``--help`` works without it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from relay.core.durations import parse_duration, parse_time
from relay.core.errors import ConfigError
from relay.core.secrets import is_secret
from relay.postgres.sql import DEFAULT_TABLE, TableName
from relay.postgres.url import check_url
from relay.spark.optionparser import one_of, whole_number


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one run of a job; a job's class has the description for ``--help`` as its docstring."""

    name: ClassVar[str]
    """``relay-cli spark NAME``, ``python -m relay.spark.jobs.NAME``."""
    examples: ClassVar[str]
    """The end of the help, followed by the exit codes."""
    exit_codes: ClassVar[str] = "0 done, 1 failed, 2 wrong arguments, 130 interrupted"


Job = TypeVar("Job", bound=Arguments)


@dataclass(frozen=True, slots=True)
class Kind:
    """How an option's text becomes a value."""

    metavar: str | None = None
    parse: Callable[[str], object] = str
    """Raises ValueError, or ConfigError, for an invalid text; its message says what is allowed."""
    check: Callable[[str, str], None] | None = None
    """Takes the text, and the option that an error names. Raises ConfigError."""
    absent: Callable[[], object] = NoneType
    """Makes the value of an option that is left out and has no default."""
    repeated: bool = False
    """Whether the option may be given several times; the value is a tuple of the different ones."""
    file: bool = False
    """Whether a file may hold the text: beside ``--url`` there is ``--url-file``."""
    hidden: bool = False
    """Whether the value may hold a password, and is left out of ``repr``."""

    def value(self, flag: str, texts: Sequence[str]) -> object:
        """The value of at least one text; the last wins. Raises ConfigError, which names the option."""
        try:
            values = [self.parse(text) for text in texts]
        except (ValueError, ConfigError) as error:
            raise ConfigError(f"{flag}: {error}") from None
        if self.check is not None:
            self.check(texts[-1], flag)
        # Of equal values the last one stays: of NAME=VALUE pairs with one name, Spark uses the last.
        return tuple(dict.fromkeys(values[::-1]))[::-1] if self.repeated else values[-1]


def option(
    description: str,
    kind: Kind | str,
    *,
    default: str | None = None,
    required: bool = False,
    flag: str = "",
    group: str = "",
    variable: str = "",
    replaces_environment: bool = False,
) -> Any:  # noqa: ANN401 - like dataclasses.field: the type is the field's annotation
    """A field of a job's arguments.

    A string in place of ``kind`` is the metavar of an option whose value is any text.

    ``default`` is written as a user would; the help shows it. ``flag`` is needed where it is not the field's name, and
    names a positional argument where it does not begin with ``-``. ``variable`` is the variable from which relay-cli
    takes the value where the option is left out; with an option that ``replaces_environment`` it reads none.
    """
    kind = Kind(kind) if isinstance(kind, str) else kind
    notes = [f"default: {default}"] if default else []
    notes += [f"relay-cli: {variable}"] if variable else []
    shown = f"{description} ({'; '.join(notes)})" if notes else description
    described = _Option(shown, kind, flag, group, variable, required, replaces_environment)
    declare = partial(field, repr=not kind.hidden, metadata={"option": described})
    if required:
        return declare()
    return declare(default_factory=kind.absent) if default is None else declare(default=kind.value(flag, [default]))


class _Option(NamedTuple):
    """The metadata of a field, and its name."""

    help: str
    kind: Kind
    flag: str
    group: str
    variable: str
    required: bool
    replaces_environment: bool
    name: str = ""


def texts(metavar: str) -> Kind:
    """Any texts, each with the option before it."""
    return Kind(metavar, absent=tuple, repeated=True)


def names(metavar: str) -> Kind:
    """Names with commas between."""
    return Kind(metavar, _names, absent=tuple)


def pairs(metavar: str) -> Kind:
    """``NAME=VALUE`` with commas between."""
    return Kind(metavar, lambda text: tuple(_pair(each) for each in _names(text)), absent=tuple)


def count(most: int) -> Kind:
    """A whole number from 1 on."""
    return Kind("N", whole_number(most))


def choice(*values: str) -> Kind:
    """One of these values, in any case."""
    return Kind("{" + ",".join(values).lower() + "}", one_of(*values))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


def _check_remote(url: str, flag: str) -> None:
    if not url.startswith("sc://"):
        raise ConfigError(f"{flag}: not the URL of a Spark Connect server, sc://HOST:PORT")


SETTLED_STATUSES: Final = ("DELIVERED", "DEAD")

FLAG: Final = Kind(parse=lambda _: True, absent=bool)
AGE: Final = Kind("AGE", parse_duration)
TIME: Final = Kind("TIME", parse_time)
TABLE: Final = Kind("[SCHEMA.]TABLE", TableName.parse)
REMOTE: Final = Kind("sc://HOST:PORT", check=_check_remote, hidden=True)
FOLDER: Final = Kind("FOLDER", lambda text: text.rstrip("/") or text)
STATUS: Final = replace(choice(*SETTLED_STATUSES), absent=lambda: SETTLED_STATUSES, repeated=True)
DATABASE_URL: Final = Kind("URL", check=check_url, file=True, hidden=True)
SPARK_OPTION: Final = Kind("NAME=VALUE", _pair, absent=tuple, repeated=True, hidden=True)

_SESSION: Final = "Spark, where no spark-submit has set it up"

# Options of several jobs.
outbox_url = partial(
    option,
    "the outbox's database: postgresql://user@host:5432/database; without the password: others may read it",
    DATABASE_URL,
    variable="STORAGE_URL",
    replaces_environment=True,
)
outbox_table = partial(option, "the outbox table", TABLE, default=DEFAULT_TABLE, variable="STORAGE_TABLE_NAME")
output_folder = partial(option, "Parquet and summary.json; replaces an earlier report", FOLDER, required=True)
json_summary = partial(option, "the summary as one JSON object", FLAG, flag="--json")
read_tasks = partial(option, "tasks that read the table, each by a connection, at most", count(10_000), default="8")
spark_remote = partial(
    option,
    "run on this Spark Connect server; with a token: SPARK_REMOTE, since others may read a command line",
    REMOTE,
    group=_SESSION,
)
spark_packages = partial(option, "packages to fetch, such as Spark's Kafka source", "MAVEN,…", group=_SESSION)
spark_jars = partial(option, "local jars", "FILE,…", group=_SESSION)


def refuse(*rules: tuple[object, str]) -> None:
    """Raise ConfigError with the message of the first rule whose condition is true."""
    for condition, message in rules:
        if condition:
            raise ConfigError(message)


def is_empty(since: datetime | None, until: datetime | None) -> tuple[bool, str]:
    """A rule: no time lies between ``--since`` and ``--until``."""
    empty = since is not None and until is not None and since >= until
    return empty, "--since and --until: the first must be earlier than the second"


def read_file(path: str) -> str:
    """A file's text. Raises ValueError, which names the path, for a file that cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8") from None


_ASSIGNED: Final = re.compile(r"([\w.%-]+)\s*=")
"""A name with its value after it."""


class CommandLine(Generic[Job]):
    """The arguments of one call, parsed; ``read`` validates them."""

    def __init__(self, job: type[Job], program: str, arguments: Sequence[str]) -> None:
        """Ends the process for ``--help``, and with exit code 2 for an unknown or missing argument."""
        self._job = job
        self._texts: dict[str, Any] = vars(_parser(job, program).parse_args(list(arguments)))

    def has(self, name: str) -> bool:
        """Whether the option of the field ``name`` was given."""
        return bool(self._texts[name] or self._texts.get(f"{name}_file"))

    def shows_secret(self) -> bool:
        """Whether a parameter of a URL, or a property of a source, in the line is a password or a token."""
        hidden = [text for each in _options(self._job) if each.kind.hidden for text in self._texts[each.name] or ()]
        return any(is_secret(name) for text in hidden for name in _ASSIGNED.findall(text))

    def variables(self) -> dict[str, str]:
        """Fields whose options are left out, and the variable from which relay-cli takes the value."""
        if self._replaces_environment():
            return {}
        return {each.name: each.variable for each in _options(self._job) if each.variable and not self.has(each.name)}

    def read(self, environment: Mapping[str, str]) -> Job:
        """The job's arguments. Raises ConfigError.

        ``environment`` has texts for options that are left out; it is ignored with an option that replaces it.
        """
        values = {}
        defaults = {} if self._replaces_environment() else environment
        for each in _options(self._job):
            texts = self._texts_of(each) or [defaults[name] for name in [each.name] if name in defaults]
            if texts:
                values[each.name] = each.kind.value(each.flag, texts)
            elif each.required:
                raise ConfigError(f"{each.flag} or {each.flag}-file: missing; give {each.help}")
        return self._job(**values)

    def _replaces_environment(self) -> bool:
        return any(self.has(each.name) for each in _options(self._job) if each.replaces_environment)

    def _texts_of(self, each: _Option) -> list[str]:
        if each.kind.file and (path := self._texts[f"{each.name}_file"]):
            return [str(Kind(parse=read_file).value(f"{each.flag}-file", [path]))]
        return self._texts[each.name] or []


def _options(job: type[Arguments]) -> list[_Option]:
    described = [(each.name, each.metadata["option"]) for each in fields(job)]
    return [each._replace(name=name, flag=each.flag or f"--{name.replace('_', '-')}") for name, each in described]


def _parser(job: type[Arguments], program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description=job.__doc__,
        epilog=f"{job.examples}\nexit codes: {job.exit_codes}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for each in _options(job):
        if each.group not in groups:
            groups[each.group] = parser.add_argument_group(each.group)
        _add(groups[each.group], each)
    return parser


def _add(group: argparse._ActionsContainer, each: _Option) -> None:
    """Every value is a list of texts, so that an option that is left out differs from an empty one."""
    if each.kind is FLAG:
        group.add_argument(each.flag, dest=each.name, action="append_const", const="", help=each.help)
        return
    shown: dict[str, Any] = {"help": each.help, "metavar": each.kind.metavar}
    if not each.flag.startswith("-"):
        group.add_argument(each.name, nargs="*" if each.kind.repeated else 1, **shown)
        return
    required = each.required and not each.kind.file
    group.add_argument(each.flag, dest=each.name, action="append", required=required, **shown)
    if each.kind.file:
        group.add_argument(f"{each.flag}-file", metavar="FILE", help="a file with the URL, password included")
