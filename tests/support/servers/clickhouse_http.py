"""ClickHouse over HTTP for tests: the embedded engine behind the server's protocol, as far as a client of rows uses it.

It answers queries and inserts in the format Native, uncompressed. One request runs at a time. Of users it knows one
password at most.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

_INSERT = re.compile(rb"\s*INSERT INTO (?P<table>\S+) \((?P<columns>[^)]*)\)[^\n]*\n", re.IGNORECASE)
_FORMAT = re.compile(rb"\s+FORMAT\s+(\w+)\s*$", re.IGNORECASE)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about clients that are cut off: that is what a proxy is for."""


class ClickHouseHttp:
    """A server on a port of its own before the engine of one folder. ``url`` is its DSN at a port."""

    def __init__(self, folder: Path) -> None:
        import clickhouse_connect  # noqa: PLC0415 - an optional extra
        from clickhouse_connect.driver.exceptions import DatabaseError  # noqa: PLC0415 - the same

        self._engine: Any = clickhouse_connect.get_client(dsn=f"chdb:///{folder}")
        self._error: type[Exception] = DatabaseError
        self._turn = threading.Lock()
        self.password = ""
        """What every request needs; empty means none."""
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="clickhouse-http", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._engine.close()

    @staticmethod
    def url(port: int) -> str:
        """The DSN of a server, or of a proxy before one."""
        return f"clickhouse://127.0.0.1:{port}/default?compress=false"

    def answer(self, text: bytes, arguments: Mapping[str, str]) -> bytes:
        """The body of one answer."""
        parameters = {name[6:]: value for name, value in arguments.items() if name.startswith("param_")}
        with self._turn:
            insert = _INSERT.match(text)
            if insert is not None:
                columns = [column.strip().strip("`") for column in insert["columns"].decode().split(",")]
                self._engine.raw_insert(insert["table"].decode(), columns, text[insert.end() :], fmt="Native")
                return b""
            form = _FORMAT.search(text)
            text = text[: form.start()] if form else text
            raw: bytes = self._engine._backend._run(
                text.decode(), form[1].decode() if form else "TabSeparated", parameters
            ).bytes()
            return raw

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                arguments = dict(parse_qsl(urlsplit(self.path).query))
                text = (
                    arguments.pop("query", "").encode()
                    + b"\n" * ("query" in self.path)
                    + _body(self.rfile, self.headers)
                )
                sent = base64.b64decode(self.headers.get("Authorization", "").rpartition(" ")[2]).decode()
                if outer.password and sent.partition(":")[2] != outer.password:
                    refusal = "Code: 516. DB::Exception: log: Authentication failed (AUTHENTICATION_FAILED)"
                    self._send(403, refusal.encode(), {"X-ClickHouse-Exception-Code": "516"})
                    return
                try:
                    self._send(200, outer.answer(text, arguments), {})
                except outer._error as error:
                    self._send(500, str(error).encode(), {"X-ClickHouse-Exception-Code": "1"})

            do_GET = do_POST  # noqa: N815 - the library's name

            def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
                self.send_response(status)
                for name, value in {
                    "Content-Length": str(len(body)),
                    "X-ClickHouse-Format": "Native",
                    **headers,
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the library's name
                """Log nothing."""

        return Handler


def _body(stream: BufferedIOBase, headers: Message) -> bytes:
    """The body of a request, in one piece or in chunks."""
    if headers.get("Transfer-Encoding") != "chunked":
        return stream.read(int(headers.get("Content-Length", 0)))
    body = b""
    while size := int(stream.readline(), 16):
        body += stream.read(size)
        stream.readline()
    stream.readline()
    return body
