"""What only SQS and SNS do: batches that fail in part, FIFO, credentials, rights, addresses; on an emulator."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from relay.brokers.aws.check import look
from relay.brokers.aws.publisher import AwsPublisher
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, ConnectionCut, Outcome, Permanent, TimedOut, Transient, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.aws import AwsAdmin
from tests.support.fixtures.aws import NewName
from tests.support.options import aws_options
from tests.support.servers.aws import REGION, AwsServer, publisher_url
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.servers.tls import tls_in_front_of
from tests.support.waiting import eventually, pace, patience

pytestmark = [pytest.mark.aws, pytest.mark.usefixtures("aws_credentials"), pytest.mark.xdist_group("aws")]

DENYING = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sns:ListTopics", "Resource": "*"}]}'


@asynccontextmanager
async def opened(url: str, **changes: Any) -> AsyncIterator[AwsPublisher]:
    """A publisher that is open."""
    publisher = AwsPublisher(aws_options(url, **changes))
    await publisher.open()
    try:
        yield publisher
    finally:
        await publisher.close()


async def outcomes(publisher: AwsPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await publisher.publish(events, sink)
    return await sink.outcomes(events)


def codes(results: list[Outcome]) -> set[str]:
    assert {type(outcome) for outcome in results} == {Transient}
    return {outcome.code for outcome in results if isinstance(outcome, Transient)}


@pytest.fixture
def proxy(aws_url: str) -> Iterator[TcpProxy]:
    with TcpProxy(int(aws_url.rpartition(":")[2])) as between:
        yield between


def through(proxy: TcpProxy) -> str:
    return publisher_url("sqs", f"http://127.0.0.1:{proxy.port}")


async def test_a_standard_queue_takes_all_that_many_requests_carry(
    aws_url: str, aws: AwsAdmin, new_queue: NewName
) -> None:
    name = new_queue("")
    async with opened(publisher_url("sqs", aws_url), max_requests=8) as publisher:
        events = [make_event(name, str(n).encode(), key=f"k{n}") for n in range(150)]
        assert await outcomes(publisher, events) == [Acknowledged()] * 150
    messages = aws.read(name, 150)
    assert {message.body for message in messages} == {str(n) for n in range(150)}
    assert {message.group for message in messages} == {None}
    assert {message.attributes["X-Event-ID"] for message in messages} == {event.event_id for event in events}


async def test_a_standard_topic_delivers_body_and_attributes(aws_url: str, aws: AwsAdmin, new_topic: NewName) -> None:
    name = new_topic("")
    async with opened(publisher_url("sns", aws_url)) as publisher:
        event = make_event(name, b"body", key="k", headers='{"trace": "t"}')
        assert await outcomes(publisher, [event]) == [Acknowledged()]
    [message] = aws.read(name, 1)
    assert (message.body, message.attributes) == (
        "body",
        {"X-Event-ID": event.event_id, "X-Partition-Key": "k", "trace": "t"},
    )


@pytest.mark.parametrize("kind", ["sqs", "sns"])
async def test_fifo_has_the_key_as_group_and_drops_a_repeat(
    kind: str, aws_url: str, aws: AwsAdmin, new_queue: NewName, new_topic: NewName
) -> None:
    name = (new_queue if kind == "sqs" else new_topic)(".fifo")
    async with opened(publisher_url(kind, aws_url)) as publisher:
        keyed, plain = make_event(name, b"1", key="order-7"), make_event(name, b"2")
        assert await outcomes(publisher, [keyed, plain]) == [Acknowledged()] * 2
        assert await outcomes(publisher, [keyed]) == [Acknowledged()]
    messages = {message.body: message for message in aws.read(name, 2)}
    assert (messages["1"].group, messages["1"].deduplication) == ("order-7", keyed.event_id)
    assert (messages["2"].group, messages["2"].deduplication) == (plain.event_id, plain.event_id)
    assert aws.count(name) == 0


async def test_groups_of_a_fifo_queue_keep_their_order_over_many_requests(
    aws_url: str, aws: AwsAdmin, new_queue: NewName
) -> None:
    name = new_queue(".fifo")
    async with opened(publisher_url("sqs", aws_url)) as publisher:
        events = [make_event(name, f"{n}".encode(), key=f"key-{n % 7}") for n in range(140)]
        assert await outcomes(publisher, events) == [Acknowledged()] * 140
    order: dict[str | None, list[int]] = {}
    for message in aws.read(name, 140):
        order.setdefault(message.group, []).append(int(message.body))
    assert all(numbers == sorted(numbers) for numbers in order.values())
    assert len(order) == 7


async def test_of_a_refused_batch_each_message_is_sent_alone(aws_url: str, aws: AwsAdmin) -> None:
    """The queue takes 1,024 bytes; the emulator refuses a whole request for one message that is larger."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    aws.create_queue(name, MaximumMessageSize="1024")
    async with opened(publisher_url("sqs", aws_url)) as publisher:
        events = [make_event(name, b"x" * (2000 if n == 4 else 10)) for n in range(10)]
        results = await outcomes(publisher, events)
    large = results.pop(4)
    assert isinstance(large, Permanent)
    assert "shorter than 1024 bytes" in large.reason
    assert results == [Acknowledged()] * 9


async def test_a_single_entry_that_a_topic_refuses_fails_alone(aws_url: str, new_topic: NewName) -> None:
    """300 kB: within the limit of all, over that of the topic."""
    name = new_topic("")
    async with opened(publisher_url("sns", aws_url)) as publisher:
        large, good = await outcomes(publisher, [make_event(name, b"x" * 300_000), make_event(name)])
    assert isinstance(large, Permanent)
    assert (large.code, good) == ("InvalidParameter", Acknowledged())


async def test_a_queue_that_is_deleted_and_made_again_is_looked_up_again(
    aws_url: str, aws: AwsAdmin, new_queue: NewName
) -> None:
    name = new_queue("")
    async with opened(publisher_url("sqs", aws_url)) as publisher:
        assert await outcomes(publisher, [make_event(name)]) == [Acknowledged()]
        aws.delete_queue(name)
        assert codes(await outcomes(publisher, [make_event(name)])) == {"NonExistentQueue"}
        session = await publisher._current.get()
        assert name not in session._addresses
        aws.create_queue(name)
        assert await outcomes(publisher, [make_event(name)]) == [Acknowledged()]


async def test_a_prefix_spares_the_question_for_the_account(aws_url: str, new_topic: NewName) -> None:
    name = new_topic("")
    for account, expected in (("123456789012", Acknowledged), ("210987654321", Transient)):
        prefix = f"arn:aws:sns:{REGION}:{account}:"
        async with opened(publisher_url("sns", aws_url), topic_arn_prefix=prefix) as publisher:
            [outcome] = await outcomes(publisher, [make_event(name)])
            assert isinstance(outcome, expected)


async def test_without_credentials_all_are_unreachable_until_there_are_some(
    aws_url: str, new_queue: NewName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mounted file that comes later is read without a restart."""
    name, mounted = new_queue(""), tmp_path / "credentials"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(mounted))
    async with opened(publisher_url("sqs", aws_url)) as publisher:
        with pytest.raises(BrokerUnreachable, match="CREDENTIALS: Unable to locate credentials"):
            await publisher.probe(patience())
        [outcome] = await outcomes(publisher, [make_event(name)])
        assert isinstance(outcome, Unreachable)
        await publisher.abandon("unreachable")
        mounted.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n", encoding="utf-8")
        await publisher.probe(patience())
        assert await outcomes(publisher, [make_event(name)]) == [Acknowledged()]


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[AwsServer, dict[str, str]]]:
    """An emulator that checks signatures and rights, and the key of a user who may only list topics.

    For SNS: the emulator refuses requests to SQS in a form that SQS does not use.
    """
    with AwsServer(settings={"INITIAL_NO_AUTH_ACTION_COUNT": "4"}) as server:
        session = boto3.Session("a", "b", region_name=REGION)
        iam: Any = session.client("iam", endpoint_url=server.url)
        session.client("sns", endpoint_url=server.url).create_topic(Name="letters")
        iam.create_user(UserName="relay")
        iam.put_user_policy(UserName="relay", PolicyName="list", PolicyDocument=DENYING)
        key = iam.create_access_key(UserName="relay")["AccessKey"]
        yield server, {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"AWS_ACCESS_KEY_ID": "AKIAUNKNOWN"}, "InvalidClientTokenId"),
        ({"AWS_SECRET_ACCESS_KEY": "hunter2"}, "Signature"),
    ],
)
async def test_refused_credentials_are_unreachable_and_say_why(
    guarded: tuple[AwsServer, dict[str, str]],
    change: dict[str, str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, key = guarded
    for name, value in (key | change).items():
        monkeypatch.setenv(name, value)
    prefix = f"arn:aws:sns:{REGION}:123456789012:"
    async with opened(publisher_url("sns", server.url), topic_arn_prefix=prefix) as publisher:
        with pytest.raises(BrokerUnreachable, match=words) as raised:
            await publisher.probe(patience())
        [outcome] = await outcomes(publisher, [make_event("letters")])
        assert isinstance(outcome, Unreachable)
        assert words in outcome.reason
        assert publisher._current._session is None or publisher._current._session.ended_as is not None
    assert "hunter2" not in f"{raised.value} {outcome} {caplog.text}"


async def test_a_forbidden_topic_is_transient_and_the_probe_is_answered(
    guarded: tuple[AwsServer, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, key = guarded
    for name, value in key.items():
        monkeypatch.setenv(name, value)
    prefix = f"arn:aws:sns:{REGION}:123456789012:"
    options = aws_options(publisher_url("sns", server.url), topic_arn_prefix=prefix)
    async with opened(options.url, topic_arn_prefix=prefix) as publisher:
        await publisher.probe(patience())
        assert codes(await outcomes(publisher, [make_event("letters")])) == {"AccessDenied"}
    wrong = await look(options, ["letters", "a b"])
    assert "cannot be looked up: AccessDenied" in wrong["letters"]
    assert "cannot name a queue" in wrong["a b"]


async def test_a_cut_connection_concerns_its_own_request(proxy: TcpProxy, new_queue: NewName) -> None:
    name = new_queue("")
    async with opened(through(proxy)) as publisher:
        assert await outcomes(publisher, [make_event(name)]) == [Acknowledged()]
        session = await publisher._current.get()
        proxy.set(Mode.CUT)
        [outcome] = await outcomes(publisher, [make_event(name)])
        assert isinstance(outcome, ConnectionCut)
        proxy.set(Mode.FLOW)
        assert await outcomes(publisher, [make_event(name)]) == [Acknowledged()]
        assert await publisher._current.get() is session


async def test_a_service_that_is_mute_times_out_and_one_that_refuses_is_unreachable(
    proxy: TcpProxy, new_queue: NewName
) -> None:
    name = new_queue("")
    async with opened(through(proxy), publish_timeout=0.3) as publisher:
        proxy.set(Mode.SILENCE)
        [late] = await outcomes(publisher, [make_event(name)])
        assert late == TimedOut("TIMEOUT", "no answer within 0.3 s")
        with pytest.raises(BrokerUnreachable, match=r"no answer within 0\.5 s"):
            await publisher.probe(0.5)
    async with opened(through(proxy), publish_timeout=patience(3)) as publisher:
        proxy.set(Mode.REFUSE)
        [refused] = await outcomes(publisher, [make_event(name)])
        assert isinstance(refused, Unreachable)
        assert "refused" in refused.reason


async def test_what_a_slow_link_still_carries_does_not_time_out(aws_url: str, new_queue: NewName) -> None:
    name = new_queue("")
    with TcpProxy(int(aws_url.rpartition(":")[2]), bytes_per_second=2e5) as slow:
        async with opened(through(slow), publish_timeout=patience(3)) as publisher:
            events = [make_event(name, b"x" * 900_000) for _ in range(4)]
            assert await outcomes(publisher, events) == [Acknowledged()] * 4


async def test_time_in_which_the_relay_does_not_run_does_not_count(aws_url: str, new_queue: NewName) -> None:
    name = new_queue("")
    async with opened(publisher_url("sqs", aws_url), publish_timeout=2.0) as publisher:
        assert await outcomes(publisher, [make_event(name)]) == [Acknowledged()]
        sink, events = Collector(), [make_event(name)]
        await publisher.publish(events, sink)
        pace(4.1)
        assert await sink.outcomes(events) == [Acknowledged()]


async def test_nothing_more_is_sent_after_it_was_abandoned(aws_url: str, aws: AwsAdmin, new_queue: NewName) -> None:
    """Over a link that has taken a part of what is buffered."""
    name = new_queue("")
    with TcpProxy(int(aws_url.rpartition(":")[2]), bytes_per_second=2e5) as slow:
        async with opened(through(slow)) as publisher:
            events, sink = [make_event(name, b"x" * 900_000) for _ in range(20)], Collector()
            publishing = asyncio.create_task(publisher.publish(events, sink))
            await eventually(lambda: slow.accepted > 10)
            async with asyncio.timeout(patience(20)):
                await publisher.abandon("the relay stops")
                await publishing
            assert set(await sink.outcomes(events)) == {Unreachable("the relay stops")}
            assert not [task for task in asyncio.all_tasks() if "AwsSession" in repr(task)]
            slow.bytes_per_second = None
    async with opened(publisher_url("sqs", aws_url)) as publisher:
        assert await outcomes(publisher, [make_event(name, b"last")]) == [Acknowledged()]
    assert [message.body for message in aws.drain(name)] == ["last"]


@pytest.mark.parametrize("kind", ["sqs", "sns"])
async def test_tls_is_checked_by_the_authorities_of_tls_ca(
    kind: str, aws_url: str, aws: AwsAdmin, new_queue: NewName, new_topic: NewName, tmp_path: Path
) -> None:
    name = (new_queue if kind == "sqs" else new_topic)("")
    async with tls_in_front_of(int(aws_url.rpartition(":")[2]), tmp_path) as tls:
        url = publisher_url(kind, f"https://127.0.0.1:{tls.port}")
        async with opened(f"{url}&tls_ca={tls.ca_file}") as publisher:
            await publisher.probe(5.0)
            assert await outcomes(publisher, [make_event(name, b"over tls")]) == [Acknowledged()]
        async with opened(url) as stranger:
            with pytest.raises(BrokerUnreachable, match=r"(?i)certificate"):
                await stranger.probe(5.0)
    assert [message.body for message in aws.read(name, 1)] == ["over tls"]


@pytest.mark.parametrize("kind", ["sqs", "sns"])
async def test_what_is_no_service_of_aws_is_unreachable_and_the_probe_and_check_say_so(kind: str) -> None:
    """A proxy with a page of its own, whose status says that all is well."""
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 17\r\n\r\n<html>log in</htm"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            writer.write(page)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with opened(publisher_url(kind, endpoint)) as publisher:
        [outcome] = await outcomes(publisher, [make_event("a")])
        assert isinstance(outcome, ConnectionCut), "an answer is held against its events until a probe says more"
        assert "not an AWS service" in outcome.reason
        with pytest.raises(BrokerUnreachable, match="not an AWS service"):
            await publisher.probe(patience())
        with pytest.raises(BrokerUnreachable, match="not an AWS service"):
            await look(aws_options(publisher_url(kind, endpoint)), ["a"])
    server.close()
