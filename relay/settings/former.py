"""Variables of an earlier release: each is named at the start, with what to use instead, and does nothing else.

For ``relay.settings.settings`` and for programs that name their variables (``Settings.from_env(only=…)``). A variable
that goes stands here for one release. ``refused`` is for one whose silent loss would be unsafe, such as a login: the
program ends with exit code 2 rather than start without it. Every other one is a warning, and the program starts.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple


class FormerVariable(NamedTuple):
    """What to do about a variable that is gone."""

    remedy: str
    """A sentence in the imperative, without a full stop: ``set CONSOLE_TOKENS_FILE``."""
    refused: bool = False
    """Whether the program that used it must not start while it is set."""
    successor: str = ""
    """The variable in its place: a program that reads this one speaks of the former one."""


_OF_THE_CONSOLE: Final = "CONSOLE_"

_OF_THE_LOG: Final = (
    *("URL", "URL_FILE", "BATCH_SIZE", "FLUSH_INTERVAL", "RECORD", "TENANT_HEADER", "SCHEMA", "PREFIX"),
    "RETENTION_DAYS",
)

FORMER: Final[dict[str, FormerVariable]] = {
    **{
        f"LOG_STORE_{name}": FormerVariable(
            f"set DELIVERY_LOG_{name} instead", successor=f"DELIVERY_LOG_{name.removesuffix('_FILE')}"
        )
        for name in _OF_THE_LOG
    },
    "CONSOLE_USERS_FILE": FormerVariable(
        "create a token for each user with relay-cli access token, and set CONSOLE_TOKENS_FILE; or set "
        "CONSOLE_OIDC_ISSUER",
        refused=True,
    ),
    "HTTP_PROTOCOL": FormerVariable("unset it: every webhook is sent by HTTP/1.1"),
}
"""By name. A name that begins with ``CONSOLE_`` was the console's: the relay says nothing about it."""


def findings(variables: Collection[str], only: Collection[str] | None, problems: list[str]) -> list[str]:
    """What to warn about the former ones among the names of set ``variables``; appends to ``problems`` what is refused.

    ``only`` are the names that a tool uses; None for a relay, which leaves the console's former variables alone.
    """
    warnings = []
    for name in sorted(FORMER.keys() & set(variables)):
        used = bool({name, FORMER[name].successor} & set(only)) if only is not None else name[:8] != _OF_THE_CONSOLE
        if used and FORMER[name].refused:
            problems.append(f"{name} is no longer a variable; {FORMER[name].remedy}")
        elif used:
            warnings.append(f"{name} is no longer a variable and is ignored; {FORMER[name].remedy}")
    return warnings
