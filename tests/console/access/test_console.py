"""The table of who may what in the console itself, and each role and none at each of its routes."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx
import pytest
from fastapi import FastAPI

from relay.console.access import AccessRole
from relay.console.access.route_roles import route_rules
from relay.console.app import build_console
from relay.console.serve import VARIABLES
from relay.settings.settings import Settings
from tests.console.access.making import token, tokens_file

READER, OPERATOR, ADMIN = AccessRole

TABLE: Final[dict[str, AccessRole | None]] = {
    "GET /": READER,
    "GET /api/v1/changes": READER,
    "GET /api/v1/changes/{change_id}": READER,
    "GET /api/v1/dead-letters": READER,
    "GET /api/v1/events": READER,
    "GET /api/v1/events/{event_id}": READER,
    "GET /api/v1/fleet": READER,
    "GET /api/v1/inbox/dead-letters": READER,
    "GET /api/v1/inbox/dead-letters/one": READER,
    "GET /api/v1/log/attempts": READER,
    "GET /api/v1/log/attempts/{attempt_id:path}": READER,
    "GET /api/v1/log/events": READER,
    "GET /api/v1/log/events/{event_id:path}": READER,
    "GET /api/v1/log/metrics/attempts": READER,
    "GET /api/v1/log/metrics/events": READER,
    "GET /api/v1/openapi.json": READER,
    "GET /api/v1/pauses": READER,
    "GET /api/v1/causes": READER,
    "GET /api/v1/overview": READER,
    "GET /api/v1/prune-preview": READER,
    "GET /api/v1/series": READER,
    "GET /api/v1/settings": READER,
    "GET /api/v1/stats": READER,
    "GET /api/v1/store": READER,
    "GET /api/v1/store/parked": READER,
    "GET /api/v1/store/subscriptions": READER,
    "GET /api/v1/store/tenants": READER,
    "GET /api/v1/store/tenants/{tenant_id}/streams": READER,
    "GET /api/v1/store/tenants/{tenant_id}/streams/{stream_id}/events": READER,
    "GET /api/v1/types": READER,
    "GET /changes": READER,
    "GET /changes/{change_id}": READER,
    "GET /dead": READER,
    "GET /changes/new": OPERATOR,
    "GET /events": READER,
    "GET /events/{event_id}": READER,
    "GET /fleet": READER,
    "GET /healthz": None,
    "GET /log": READER,
    "GET /log/attempts/{attempt_id:path}": READER,
    "GET /log/chart": READER,
    "GET /log/events/{event_id:path}": READER,
    "GET /log/failures": READER,
    "GET /login": None,
    "GET /logins": READER,
    "GET /prune": ADMIN,
    "GET /settings": READER,
    "GET /store": READER,
    "GET /store/tenants/{tenant_id}": READER,
    "GET /store/tenants/{tenant_id}/streams/{stream_id}": READER,
    "GET /types": READER,
    "GET /types/pause": OPERATOR,
    "POST /api/v1/changes/{change_id}/stop": OPERATOR,
    "POST /api/v1/events/{event_id}/{action}": OPERATOR,
    "POST /api/v1/pauses": OPERATOR,
    "POST /api/v1/pauses/resume": OPERATOR,
    "POST /api/v1/pauses/resume-all": OPERATOR,
    "POST /api/v1/inbox/dead-letters/retry": OPERATOR,
    "POST /api/v1/inbox/dead-letters/skip": OPERATOR,
    "POST /api/v1/prune": ADMIN,
    "POST /api/v1/store/parked/retry": OPERATOR,
    "POST /api/v1/store/parked/skip": OPERATOR,
    "POST /api/v1/changes": OPERATOR,
    "POST /changes/{change_id}/stop": OPERATOR,
    "POST /changes": OPERATOR,
    "POST /events/{event_id}/{action}": OPERATOR,
    "POST /login": None,
    "POST /logout": READER,
    "POST /pauses": OPERATOR,
    "POST /set-aside/retry": OPERATOR,
    "POST /prune": ADMIN,
    "POST /pauses/resume": OPERATOR,
    "POST /pauses/resume-all": OPERATOR,
}
"""The role of each route, None for what needs no login. A new route stands here with its role, or this test fails."""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """A console whose database does not answer: what is admitted ends in an error of its own."""
    path = tokens_file(tmp_path_factory.mktemp("access"))
    variables = {"STORAGE_URL": "postgres://u@127.0.0.1:1/d", "CONSOLE_TOKENS_FILE": str(path)}
    return build_console(Settings.from_env(variables, only=VARIABLES))


def test_the_table_of_who_may_what_is_whole(console: FastAPI) -> None:
    read = {f"{method} {rule.path}": rule.role for rule in route_rules(console) for method in sorted(rule.methods)}

    assert read == TABLE


@pytest.mark.parametrize("role", [None, *AccessRole], ids=str)
async def test_each_role_and_none_at_each_route(console: FastAPI, role: AccessRole | None) -> None:
    headers = {} if role is None else {"authorization": f"Bearer {token(f'{role}-token')}"}
    transport = httpx.ASGITransport(console, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8090", headers=headers) as client:

        async def status(route: str) -> int:
            method, _, path = route.partition(" ")
            for name in ("change_id", "event_id"):
                path = path.replace(f"{{{name}}}", "00000000-0000-0000-0000-000000000000")
            return (await client.request(method, path.replace("{action}", "bury"))).status_code

        routes = [route for route, needed in TABLE.items() if needed is not None]
        statuses = dict(zip(routes, await asyncio.gather(*map(status, routes)), strict=True))

    refused = {route: code for route, code in statuses.items() if code in (401, 403)}
    if role is None:
        assert refused == dict.fromkeys(routes, 401)
    else:
        assert refused == {route: 403 for route in routes if (TABLE[route] or READER) > role}


async def test_api_token_reads_the_api_and_reaches_no_page() -> None:
    variables = {"STORAGE_URL": "postgres://u@127.0.0.1:1/d", "API_TOKEN": "x" * 40}
    app = build_console(Settings.from_env(variables, only=VARIABLES))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"authorization": f"Bearer {'x' * 40}"}
    refused = {}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8090", headers=headers) as client:
        for route, needed in TABLE.items():
            method, _, path = route.partition(" ")
            code = (await client.request(method, path.replace("{action}", "bury"))).status_code
            if needed is not None and code in (401, 403):
                refused[route] = code

    pages = {route: 401 for route, needed in TABLE.items() if needed is not None and "/api/" not in route}
    changes = {route: 403 for route, needed in TABLE.items() if needed is not READER and "/api/" in route}
    assert refused == pages | changes
