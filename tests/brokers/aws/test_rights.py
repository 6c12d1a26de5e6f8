"""The policy that docs/operate/trust.md has to copy allows the calls that the relay makes, and no others.

On an emulator, which decides by names that AWS does not use (``sns:PublishBatch``), and knows no resources: so what the
relay calls is compared with the policy here.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Final

import pytest

from relay.core.outcome import Acknowledged
from tests.brokers.aws.test_neighbours import gateway_to
from tests.brokers.aws.test_publisher import opened, outcomes
from tests.brokers.harness.base import make_event
from tests.support.aws import AwsAdmin
from tests.support.documents import blocks
from tests.support.servers.aws import publisher_url
from tests.support.waiting import patience

pytestmark = [pytest.mark.aws, pytest.mark.usefixtures("aws_credentials"), pytest.mark.xdist_group("aws")]

_RIGHTS: Final = {
    "SendMessage": "sqs:SendMessage",
    "SendMessageBatch": "sqs:SendMessage",
    "GetQueueUrl": "sqs:GetQueueUrl",
    "Publish": "sns:Publish",
    "PublishBatch": "sns:Publish",
}
"""What AWS asks for at each call, by its service authorization reference."""
_ANSWERED: Final = {"GetCallerIdentity", "ListQueues", "ListTopics"}
"""The first needs no right, and to the others, which are probes, a refusal is an answer."""


def policy(service: str) -> tuple[set[str], str]:
    """The actions that the page's policy allows for a service, and on which resource."""
    [block] = [one for one in blocks("docs/operate/trust.md") if one.language == "json"]
    statements = json.loads(block.text)["Statement"]
    [(actions, resource)] = [
        (actions, each["Resource"])
        for each in statements
        if (actions := {*([each["Action"]] if isinstance(each["Action"], str) else each["Action"])})
        and all(action.startswith(f"{service}:") for action in actions)
    ]
    return actions, resource


@pytest.mark.parametrize("service", ["sqs", "sns"])
async def test_the_least_rights_of_the_page_are_what_the_relay_calls(aws: AwsAdmin, aws_url: str, service: str) -> None:
    create = {"sqs": aws.create_queue, "sns": aws.create_topic}[service]
    create("orders-placed")
    actions, resource = policy(service)
    called: set[str] = set()
    async with gateway_to(aws_url, called=called) as gateway, opened(publisher_url(service, gateway)) as publisher:
        await publisher.probe(patience())
        events = [make_event("orders-placed") for _ in range(25)]
        assert await outcomes(publisher, events) == [Acknowledged()] * 25
        assert await outcomes(publisher, events[:1]) == [Acknowledged()]
    assert {_RIGHTS[call] for call in called - _ANSWERED} == actions
    arns = [f"arn:aws:{service}:eu-central-1:123456789012:{name}" for name in ("orders-placed", "mails-sent")]
    assert [fnmatchcase(arn, resource) for arn in arns] == [True, False]
