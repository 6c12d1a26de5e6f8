"""Names that look like variables of ours and are none, such as misspelt ones: each is said at the start."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping

from relay.brokers import kinds
from relay.settings.former import FORMER
from relay.settings.service_links import is_service_link
from relay.settings.variables import NAMES

_PREFIXES = (
    "STORAGE_",
    "PUBLISHER_",
    "RETRY_",
    *(prefix for one in kinds.KINDS.values() for prefix in (one.prefixes if one.guarded is None else one.guarded)),
    "ROUTE",
    "DESTINATIONS_",
    "DELIVERY_LOG_",
    "REAP_",
    "ORDERING_",
    "CONSOLE_",
    "CLOUDEVENTS_",
)
# Set automatically by Kubernetes and container links for a Service called kafka, nats, redis or rabbitmq.
_INJECTED = re.compile(r"\w+_(SERVICE_(HOST|PORT\w*)|PORT(_\d+_\w+)?|NAME|ENV_\w+)")


def of_the_console(names: Collection[str]) -> Iterator[str]:
    """A sentence for a variable that the contract gives to the relay and that the console uses here."""
    for name in ("API_TOKEN", "API_TOKEN_FILE"):
        if name in names:
            yield (
                f"{name} is set but not used by the relay, which does not serve the delivery log's API. Run relay-cli "
                f"console, which does and takes this token; for the relay, unset {name}"
            )


def findings(values: Mapping[str, str], used: Collection[str]) -> Iterator[str]:
    """A sentence for each name that looks like one of our variables, in any case, and is none.

    ``used`` are those that a program reads: the relay's are all, the console looks at its own. A command looks at none.
    """
    of_a_relay = set(NAMES) <= set(used)
    if not of_a_relay and "CONSOLE_PORT" not in used:
        return
    prefixes, program = (_PREFIXES, "relay") if of_a_relay else (("CONSOLE_",), "console")
    for name in sorted(values.keys() - set(NAMES) - FORMER.keys()):
        ours = name.upper().startswith(prefixes) and not _injected(name, values[name])
        near = difflib.get_close_matches(name.upper(), used, 1, 0.75 if ours else 0.9)
        if near:
            yield f"{name} is not a variable of the {program} and is ignored; did you mean {near[0]}?"
        elif ours:
            yield f"{name} is not a variable of the {program} and is ignored"


def _injected(name: str, value: str) -> bool:
    """Whether Kubernetes or a container link has set it, and no operator."""
    bare_port = name.endswith("_PORT") and not name.endswith(("_SERVICE_PORT", "_TCP_PORT", "_UDP_PORT", "_SCTP_PORT"))
    return is_service_link(value) if bare_port else _INJECTED.fullmatch(name) is not None
