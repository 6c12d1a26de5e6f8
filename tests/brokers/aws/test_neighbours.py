"""A gateway that refuses, delays or throttles the requests of one message: what that costs the messages beside it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from relay.core.outcome import Acknowledged, ConnectionCut, Outcome, TimedOut, Transient, Withheld
from tests.brokers.aws.test_publisher import opened, outcomes
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.aws import NewName
from tests.support.servers.aws import publisher_url
from tests.support.waiting import patience

pytestmark = [pytest.mark.aws, pytest.mark.usefixtures("aws_credentials"), pytest.mark.xdist_group("aws")]


@asynccontextmanager
async def gateway_to(
    aws_url: str, answer: Callable[[bytes], Awaitable[web.Response]] | None = None, called: set[str] | None = None
) -> AsyncIterator[str]:
    """A gateway that passes on all requests but those with a poison in them; ``answer`` takes their body.

    ``called`` gets the names of the requests' operations.
    """

    async def pass_on(request: web.Request) -> web.Response:
        body = await request.read()
        if called is not None:
            form = parse_qs(body.decode())
            called.add(request.headers.get("X-Amz-Target", "").rpartition(".")[2] or form["Action"][0])
        if answer is not None and b"poison" in body:
            return await answer(body)
        headers = {name: value for name, value in request.headers.items() if name != "Content-Length"}
        async with ClientSession() as client:
            passed = await client.request(request.method, aws_url + request.path_qs, data=body, headers=headers)
            return web.Response(status=passed.status, body=await passed.read(), content_type=passed.content_type)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", pass_on)
    gateway = TestServer(application)
    await gateway.start_server()
    try:
        yield str(gateway.make_url("")).rstrip("/")
    finally:
        await gateway.close()


def said(status: int, answer: dict[str, Any]) -> web.Response:
    """As SQS says it."""
    return web.Response(status=status, body=json.dumps(answer).encode(), content_type="application/x-amz-json-1.0")


@pytest.mark.parametrize("fault", ["hangs", "is throttled"])
async def test_a_request_that_fails_as_a_whole_costs_its_neighbours_two_attempts_at_most(
    fault: str, aws_url: str, new_queue: NewName
) -> None:
    ended = asyncio.Event()

    async def refuse(_: bytes) -> web.Response:
        if fault == "hangs":
            await ended.wait()
        return said(400, {"__type": "com.amazonaws.sqs#RequestThrottled", "message": "too many requests"})

    name = new_queue("")
    left = [make_event(name, b"poison" if number == 3 else b"good") for number in range(7)]
    failed: list[Outcome] = []
    async with gateway_to(aws_url, refuse) as url:
        async with opened(publisher_url("sqs", url), publish_timeout=patience(1.0)) as publisher:
            for attempt in range(1, 4):
                results = zip(left, await outcomes(publisher, left), strict=True)
                refused = [(event, outcome) for event, outcome in results if outcome != Acknowledged()]
                left = [event._replace(attempts=attempt) for event, _ in refused]
                failed += [outcome for _, outcome in refused]
        ended.set()
    assert [event.payload for event in left] == [b"poison"]
    assert {type(outcome) for outcome in failed} == {TimedOut if fault == "hangs" else Transient}


async def test_an_entry_for_which_the_service_is_unavailable_fails_alone(aws_url: str, new_queue: NewName) -> None:
    """The service has answered, so nothing else waits: the code of a whole request means more."""

    async def refuse(body: bytes) -> web.Response:
        entries = json.loads(body)["Entries"]
        bad = [entry["Id"] for entry in entries if entry["MessageBody"] == "poison"]
        good = [{"Id": entry["Id"], "MessageId": "m"} for entry in entries if entry["Id"] not in bad]
        code = {"SenderFault": False, "Code": "ServiceUnavailable", "Message": "try again"}
        return said(200, {"Successful": good, "Failed": [{"Id": one, **code} for one in bad]})

    name = new_queue("")
    events = [make_event(name, b"poison" if number == 3 else b"good") for number in range(7)]
    async with gateway_to(aws_url, refuse) as url, opened(publisher_url("sqs", url)) as publisher:
        results = await outcomes(publisher, events)
    assert results.pop(3) == Transient("ServiceUnavailable", "try again")
    assert results == [Acknowledged()] * 6


async def test_what_a_gateway_refuses_is_held_against_its_own_request(aws_url: str, new_queue: NewName) -> None:
    """A page of 403 for one message, while the probe is answered: alone it is known, and the others arrive."""

    async def refuse(body: bytes) -> web.Response:
        return web.Response(status=403, text="<html>no</html>", content_type="text/html")

    name = new_queue("")
    events = [make_event(name, b"poison" if number == 3 else b"good") for number in range(20)]
    async with gateway_to(aws_url, refuse) as url, opened(publisher_url("sqs", url)) as publisher:
        together = await outcomes(publisher, events)
        await publisher.probe_destination(name, patience())
        alone = [(await outcomes(publisher, [event]))[0] for event in events[:10]]
    assert [type(outcome) for outcome in together] == [ConnectionCut] * 10 + [Acknowledged] * 10
    assert [type(outcome) for outcome in alone] == [Acknowledged] * 3 + [ConnectionCut] + [Acknowledged] * 6


async def test_a_queue_that_hangs_takes_no_request_of_another_and_what_waits_for_it_is_given_back(
    aws_url: str, new_queue: NewName
) -> None:
    ended = asyncio.Event()

    async def hang(_: bytes) -> web.Response:
        await ended.wait()
        return web.Response(status=500)

    bad, good, sink = new_queue(""), new_queue(""), Collector()
    hung = [make_event(bad, b"poison") for _ in range(50)]
    async with gateway_to(aws_url, hang) as url, opened(publisher_url("sqs", url), max_requests=2) as publisher:
        async with asyncio.timeout(patience(20)):
            await publisher.publish(hung, sink)
            assert await outcomes(publisher, [make_event(good) for _ in range(50)]) == [Acknowledged()] * 50
        assert sink.resolutions == []
        publisher.take_back("the relay is stopping")
        assert sink.resolutions == [(event, Withheld("the relay is stopping")) for event in hung[20:]]
        ended.set()
        assert len(await sink.outcomes(hung)) == 50
