"""A host whose clock is ten minutes off: its requests are refused, which is held against no event and is said."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from relay.core.errors import BrokerUnreachable
from relay.core.outcome import Unreachable
from tests.brokers.aws.test_publisher import opened, outcomes
from tests.brokers.harness.base import make_event
from tests.support.servers.aws import publisher_url

pytestmark = [pytest.mark.aws, pytest.mark.usefixtures("aws_credentials"), pytest.mark.xdist_group("aws")]

EXPIRED = "Signature expired: 20261127T110000Z is now earlier than 20261127T110500Z (20261127T111000Z - 5 min.)"
CODES = {"sqs": ["InvalidSignatureException", "RequestTimeTooSkewed"], "sns": ["SignatureDoesNotMatch"]}


@pytest.fixture
async def skewed(kind: str, code: str) -> AsyncIterator[str]:
    """A service that answers as AWS answers a request that is signed at a time too far from its own."""

    async def refuse(_: web.Request) -> web.Response:
        if kind == "sqs":
            body = json.dumps({"__type": f"com.amazon.coral.service#{code}", "message": EXPIRED})
            return web.Response(status=403, text=body, content_type="application/x-amz-json-1.0")
        body = f"<ErrorResponse><Error><Code>{code}</Code><Message>{EXPIRED}</Message></Error></ErrorResponse>"
        return web.Response(status=403, text=body, content_type="text/xml")

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", refuse)
    server = TestServer(application)
    await server.start_server()
    yield str(server.make_url("")).rstrip("/")
    await server.close()


@pytest.mark.parametrize(("kind", "code"), [(kind, code) for kind, codes in CODES.items() for code in codes])
async def test_a_refused_time_of_the_signature_is_unreachable_and_says_why(kind: str, code: str, skewed: str) -> None:
    async with opened(publisher_url(kind, skewed), kind=kind) as publisher:
        results = await outcomes(publisher, [make_event("queue", b"1"), make_event("queue", b"2")])
        assert {type(one) for one in results} == {Unreachable}
        assert all("Signature expired: " in str(one) for one in results)
        with pytest.raises(BrokerUnreachable, match="Signature expired: "):
            await publisher.probe(5.0)
