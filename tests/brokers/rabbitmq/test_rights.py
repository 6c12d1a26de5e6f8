"""The rights that docs/operate/trust.md has to copy are enough, and no more."""

from __future__ import annotations

import shlex

import pytest

from relay.brokers.rabbitmq.publisher import RabbitPublisher
from relay.core.outcome import Acknowledged, Outcome
from tests.brokers.harness.base import Collector, make_event
from tests.support.documents import blocks
from tests.support.options import rabbit_options
from tests.support.servers.rabbitmq import RabbitServer
from tests.support.waiting import patience


async def _outcomes(url: str, exchange: str, *types: str) -> list[Outcome]:
    publisher, sink = RabbitPublisher(rabbit_options(url, exchange=exchange)), Collector()
    events = [make_event(name) for name in types]
    await publisher.open()
    await publisher.probe(patience())
    await publisher.publish(events, sink)
    outcomes = await sink.outcomes(events)
    await publisher.close()
    return outcomes


@pytest.mark.xdist_group("rabbitmq")
async def test_the_least_rights_of_the_page_are_enough_and_no_more(breakable_rabbitmq: RabbitServer) -> None:
    [block] = [one for one in blocks("docs/operate/trust.md") if "rabbitmqctl" in one.text]
    for line in ("rabbitmqctl add_user relay right", *block.text.splitlines()):
        breakable_rabbitmq.control(*shlex.split(line)[1:])
    url = breakable_rabbitmq.url_of("relay", "right")
    placed, other = await _outcomes(url, "events", "orders.placed", "mails.sent")
    [queue] = await _outcomes(url, "", "letters")
    assert placed == Acknowledged()
    assert [getattr(outcome, "code", "") for outcome in (other, queue)] == ["ACCESS_REFUSED"] * 2
