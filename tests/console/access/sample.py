"""A small application behind the access rules, and a server that answers for it over real HTTP."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import httpx
import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.responses import HTMLResponse

from relay.console.access import AccessRole, Identity, install, require
from relay.console.access.logins import COOKIE
from relay.settings.settings import Settings
from tests.console.access.making import token
from tests.support.waiting import wait_until

Reader = Annotated[Identity, Depends(require(AccessRole.READER))]
Operator = Annotated[Identity, Depends(require(AccessRole.OPERATOR))]
Admin = Annotated[Identity, Depends(require(AccessRole.ADMIN))]


def settings(**variables: str) -> Settings:
    return Settings.from_env({"STORAGE_URL": "postgres://u@h/d", "PUBLISHER_TYPE": "stdout", **variables})


def sample_app(read: Settings) -> FastAPI:
    """Routes for each role, a change by each method, and the pages below."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    router = APIRouter(prefix="/api")
    done: list[str] = []
    app.state.done = done

    @router.get("/things")
    async def things(identity: Reader) -> dict[str, str]:
        return {"name": identity.name, "role": str(identity.role)}

    @router.api_route("/things", methods=["POST", "PUT", "PATCH", "DELETE"])
    async def change(identity: Operator, request: Request) -> dict[str, str]:
        done.append(request.method)
        return {"body": (await request.body()).decode("latin-1")}

    @router.get("/settings")
    async def admin_only(identity: Admin) -> dict[str, str]:
        return {"name": identity.name}

    _add_pages(app)
    app.include_router(router)
    install(app, read)
    return app


def _add_pages(app: FastAPI) -> None:
    @app.get("/")
    async def page(identity: Reader, request: Request) -> HTMLResponse:
        return HTMLResponse(f'<input name="csrf_token" value="{request.state.csrf_token}">{identity.name}')

    @app.get("/fails")
    async def fails(identity: Reader) -> None:
        raise ZeroDivisionError("the route failed")


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token(name)}"}


@contextmanager
def served(app: FastAPI, port: int = 0) -> Iterator[str]:
    """The URL of a server of this process; port 0 is a free one."""
    config = uvicorn.Config(app, port=port, log_config=None, access_log=False, proxy_headers=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), what="the server to start")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


@dataclass
class Browser:
    """What a browser does with cookies and forms; Secure cookies over http too, since the host is this machine."""

    url: str
    client: httpx.Client

    def __post_init__(self) -> None:
        self.cookies: dict[str, str] = {}

    def send(self, method: str, path: str, **options: object) -> httpx.Response:
        """One request, as a page of this site sends it; redirects are not followed."""
        headers = {"accept": "text/html", "sec-fetch-site": "same-origin", **dict(options.pop("headers", {}))}  # type: ignore[call-overload]
        if self.cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        response = self.client.request(method, self.url + path, headers=headers, **options)  # type: ignore[arg-type]
        for line in response.headers.get_list("set-cookie"):
            name, _, rest = line.partition("=")
            value = rest.partition(";")[0].strip('"')
            assert {"Secure", "HttpOnly", "Path=/", "SameSite=lax"} <= {part.strip() for part in line.split(";")}
            if "Max-Age=0" in line:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        return response

    def csrf(self, path: str = "/") -> str:
        """The token of the first form of a page."""
        match = re.search(r'name="csrf_token" value="([^"]+)"', self.send("GET", path).text)
        assert match is not None
        return match[1]

    def log_in(self, next_path: str = "/", **fields: str) -> httpx.Response:
        """Send the form of the login page."""
        form = {"csrf_token": self.csrf("/login"), "next": next_path, **fields}
        return self.send("POST", "/login", data=form)

    @property
    def login(self) -> str:
        """The cookie of the login."""
        return self.cookies.get(COOKIE, "")
