"""The console's static files: in memory, compressed once, under a path that names their version.

They need no thread and no disk, so they are served whatever the requests that read the database wait for. A browser
keeps a file of this version; a page of another version of the console still gets the file of its name.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from pathlib import Path
from typing import Final, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

FOLDER: Final = Path(__file__).parent / "pages" / "static"
_KEPT: Final = "public, max-age=31536000, immutable"
_TEXT: Final = ("text/", "application/javascript", "image/svg+xml")


class _File(NamedTuple):
    kind: str
    content: bytes
    compressed: bytes | None


def _read(path: Path) -> _File:
    content, kind = path.read_bytes(), mimetypes.guess_type(path.name)[0] or "text/plain"
    return _File(kind, content, gzip.compress(content, mtime=0) if kind.startswith(_TEXT) else None)


FILES: Final = {path.relative_to(FOLDER).as_posix(): _read(path) for path in FOLDER.rglob("*") if path.is_file()}
_VERSION: Final = hashlib.sha256(b"".join(name.encode() + FILES[name].content for name in sorted(FILES))).hexdigest()
STATIC: Final = f"/static/{_VERSION[:12]}"
"""Where pages load the files from."""


async def static_files(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request below ``/static``."""
    await _answer(Request(scope))(scope, receive, send)


def _answer(request: Request) -> Response:
    if request.method not in {"GET", "HEAD"}:
        return PlainTextResponse("a file can only be read", 405, {"Allow": "GET, HEAD"})
    version, _, name = request.url.path.removeprefix("/static/").partition("/")
    file = FILES.get(name)
    if file is None:
        return PlainTextResponse("there is no such file", 404)
    kept = _KEPT if STATIC.endswith(f"/{version}") else "no-cache"
    headers = {"Cache-Control": kept, "Vary": "Accept-Encoding"}
    if file.compressed is not None and _takes_gzip(request.headers):
        return Response(file.compressed, headers=headers | {"Content-Encoding": "gzip"}, media_type=file.kind)
    return Response(file.content, headers=headers, media_type=file.kind)


def _takes_gzip(headers: Headers) -> bool:
    codings = [each.replace(" ", "").lower() for each in headers.get("accept-encoding", "").split(",")]
    return any(each.partition(";")[0] == "gzip" and not each.endswith((";q=0", ";q=0.0")) for each in codings)
