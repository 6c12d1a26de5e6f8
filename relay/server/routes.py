"""The endpoints: ``/``, which lists them, ``/healthz``, ``/livez``, ``/readyz``, ``/stats`` and ``/metrics``.

Every answer but the metrics is JSON, errors too; the paths of the delivery log's API answer where it is served. A
client of this machine is also given the messages of database, broker and operator, masked; any other the states alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from relay.core.outside import shown
from relay.core.status import Stats, StatusView
from relay.version import __version__

_HEADERS = {"Cache-Control": "no-store"}
_LOG_API = "/api/v1/log"
_FOR_LOCAL_CLIENTS = "the reason is given to clients of the relay's machine"
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


Endpoint = Callable[[Request], Awaitable[Response]]


class _Endpoints:
    """What each path answers."""

    def __init__(self, view: StatusView) -> None:
        self._view = view

    def endpoints(self) -> dict[str, tuple[Endpoint, str]]:
        """By path: what answers, and the meaning that ``/`` lists."""
        return {
            "/": (self.index, ""),
            "/healthz": (self.healthz, "200 while the process and its loops live"),
            "/livez": (self.healthz, "the same as /healthz"),
            "/readyz": (self.readyz, "200 when database and broker answer, else 503 with the reason"),
            "/stats": (self.stats, "the backlog"),
            "/metrics": (self.metrics, "metrics for Prometheus"),
        }

    async def index(self, _: Request) -> Response:
        meanings = {path: meaning for path, (_, meaning) in self.endpoints().items() if meaning}
        return _json({"name": "openoutbox-relay", "version": __version__, "endpoints": meanings})

    async def healthz(self, _: Request) -> Response:
        problem = self._view.health().problem
        body = {"status": "failed", "reason": shown(problem)} if problem else {"status": "ok"}
        return _json(body, 503 if problem else 200)

    async def readyz(self, request: Request) -> Response:
        readiness, local = self._view.readiness(), _is_local(request)
        fault = "failing" if readiness.storage_refuses else "unreachable"
        body = {
            "ready": readiness.ready,
            "storage": _condition(readiness.storage_problem, fault, local=local),
            "broker": _condition(readiness.broker_problem, "unreachable", local=local),
            **{name: _condition(why, "degraded", local=local) for name, why in readiness.degraded.items()},
            **({"paused": _masked(readiness.pauses, local=local)} if readiness.pauses else {}),
        }
        return _json(body, 200 if readiness.ready else 503)

    async def stats(self, request: Request) -> Response:
        latest = await self._view.stats()
        if latest is None:
            return _json({"error": "the backlog has not been read yet; /readyz says why"}, 503)
        return _json(stats_body(latest, local=_is_local(request)))

    async def metrics(self, request: Request) -> Response:
        body, content_type = self._view.metrics(request.headers.get("accept", ""))
        return Response(body, headers={**_HEADERS, "Content-Type": content_type})


def application(view: StatusView) -> Starlette:
    """The ASGI application that shows ``view``."""
    app = Starlette(
        routes=[
            *(Route(path, endpoint, methods=["GET"]) for path, (endpoint, _) in _Endpoints(view).endpoints().items()),
            *(Route(f"{_LOG_API}{rest}", _moved, methods=_METHODS) for rest in ("", "/{rest:path}")),
        ],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.router.redirect_slashes = False
    return app


def stats_body(stats: Stats, *, local: bool) -> dict[str, Any]:
    """The answer of ``/stats``: the contract's three numbers, and ours beside them.

    ``pending_count`` and ``retrying_count`` stand beside each other as the two series of
    ``openoutbox_backlog_pending_count`` do: no row is in both, and their sum is all that is PENDING.
    """
    return {
        **stats.backlog.answer(),
        "in_flight_count": stats.in_flight,
        "relay_state": int(stats.state),
        "relay_id": stats.relay_id,
        "version": __version__,
        "sample_age_sec": round(stats.sample_age, 3),
        "paused": _masked(stats.pauses, local=local),
        "destinations": {
            name: {"state": one.state, "since": one.since, "reason": shown(one.reason) if local else ""}
            for name, one in stats.destinations.items()
        },
    }


async def _moved(_: Request) -> Response:
    message = (
        f"the relay does not serve {_LOG_API}: run relay-cli console, which serves it by the same paths, with the "
        "tokens of CONSOLE_TOKENS_FILE or API_TOKEN"
    )
    return _json({"error": message}, 410)


def _is_local(request: Request) -> bool:
    """Whether the client is a process of this machine."""
    address = request.client.host.removeprefix("::ffff:") if request.client else ""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _masked(sentences: Sequence[str], *, local: bool) -> list[str]:
    return [shown(sentence) if local else _FOR_LOCAL_CLIENTS for sentence in sentences]


def _condition(problem: str, fault: str, *, local: bool) -> str:
    if not problem:
        return "ok"
    return f"{fault}: {shown(problem)}" if local else fault


def _json(body: dict[str, Any], status: int = 200) -> Response:
    return JSONResponse(body, status, headers=_HEADERS)


def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return _failed(request, error)
    reasons = {404: "no endpoint has this path; GET / lists them", 405: "only GET and HEAD are answered here"}
    body = {"error": reasons.get(error.status_code, error.detail)}
    return JSONResponse(body, error.status_code, headers={**_HEADERS, **(error.headers or {})})


def _failed(_: Request, _error: Exception) -> Response:
    """Answer 500; uvicorn logs the error."""
    return _json({"error": "internal error; the log says more"}, 500)
