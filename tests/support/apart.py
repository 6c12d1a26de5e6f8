"""What SQL says of ``Apart``, for doubles of the table, whose headers are texts: written without the code of routes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache

from relay.core.places import Apart, Flow


def is_left_out(flows: Iterable[Flow], event_type: str, headers: str) -> bool:
    """Whether claims that leave out these flows leave out such an event."""
    return any(
        _takes(flow, headers) if isinstance(flow, Apart) else True
        for flow in flows
        if event_type == (flow.event_type if isinstance(flow, Apart) else flow)
    )


def _takes(apart: Apart, headers: str) -> bool:
    known = json.loads(headers)
    name = apart.start
    for header, text in zip(apart.headers, apart.texts, strict=True):
        if not isinstance(known, dict) or not known.get(header):
            return False
        name += f"{known[header]}{text}"
    return _like(apart.pattern, name) and not any(_like(one, name) for one in apart.earlier)


def _like(pattern: str, name: str) -> bool:
    return _expression(pattern).fullmatch(name) is not None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    """Of a pattern of LIKE."""
    parts = re.findall(r"\\.|[^\\]", pattern, re.DOTALL)
    return re.compile("".join({"%": ".*", "_": "."}.get(part, re.escape(part[-1])) for part in parts), re.DOTALL)
