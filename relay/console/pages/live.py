"""Live pages: a part that the browser polls (``static/live.js``), and 304 where it shows that already.

A part's ETag is of what it shows: without the secrets of its forms, which differ in every answer, and with the login,
since these secrets are valid for one. It is known without rendering while the reading is the one that an earlier answer
was rendered from, for whatever viewer of the same role.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from fastapi import Request
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from relay.console.access import Identity
from relay.console.conditional import digest, has_already, not_modified
from relay.console.context import console_of
from relay.console.pages.render import page, rendered

_SECRETS: Final = re.compile(r'name="(csrf_token|idempotency_key)" value="[^"]*"')


def live_page(
    request: Request, name: str, identity: Identity, reading: object, values: Callable[[], Mapping[str, Any]]
) -> Response:
    """The page ``name.html`` around ``name_live.html``, or for htmx this part alone, or 304.

    ``values`` are what both templates show of ``reading``; they are computed only to be rendered.
    """
    parts, key = console_of(request).parts, (name, identity.role)
    alone = "hx-request" in request.headers
    before, known = parts.get(key, (None, ""))
    if alone and before == reading and has_already(request.headers, _tag(request, known)):
        return not_modified(_tag(request, known))
    shown = values()
    part = rendered(request, f"{name}_live.html", identity, **shown)
    content = digest(_SECRETS.sub("", part).encode())
    parts[key] = reading, content
    tag = _tag(request, content)
    if not alone:
        return page(request, f"{name}.html", identity, part=Markup(part), etag=tag, **shown)  # noqa: S704 - a template's
    return not_modified(tag) if has_already(request.headers, tag) else HTMLResponse(part, headers={"ETag": tag})


def _tag(request: Request, content: str) -> str:
    login = request.state.login
    return f'"{content}-{digest(login.id.encode())[:8] if login is not None else ""}"'
