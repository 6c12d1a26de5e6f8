"""Variables that Kubernetes sets in every pod for each Service of its namespace: none of them is an operator's.

A Service named ``console`` gives ``CONSOLE_PORT=tcp://10.0.0.1:80``, which is also the name of a variable of ours.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

_LINK: Final = re.compile(r"(tcp|udp|sctp)://[^/\s]+:\d+")


def is_service_link(value: str) -> bool:
    """Whether it is what Kubernetes writes into ``NAME_PORT``."""
    return _LINK.fullmatch(value.strip()) is not None


def without_links(environ: Mapping[str, str], names: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """``environ`` without the links that have the name of a variable of ours, and a sentence for each of them."""
    links = [name for name in sorted(names) if name.endswith("_PORT") and is_service_link(environ.get(name, ""))]
    kept = {name: value for name, value in environ.items() if name not in links}
    said = [
        f"{name} is ignored: its value is what Kubernetes sets for a Service of that name; set enableServiceLinks: "
        "false in the pod"
        for name in links
    ]
    return kept, said
