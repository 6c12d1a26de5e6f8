"""The queues and topics that events go to: for ``relay-cli check``, not for publishing.

Asking needs ``sqs:GetQueueUrl``, which the relay has, or ``sns:GetTopicAttributes``, which it does without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relay.brokers.aws.client import AwsClient
from relay.brokers.aws.errors import classify
from relay.brokers.aws.names import name_of
from relay.brokers.aws.options import AwsOptions, read_target
from relay.brokers.aws.services import Service, service_of
from relay.brokers.aws.session import FAILURES
from relay.brokers.findings import all_exist
from relay.brokers.kinds import KINDS, CheckContext
from relay.core.errors import BrokerUnreachable
from relay.core.finding import Finding, Level
from relay.core.outcome import Permanent, Transient

_KEEPS_NONE: Final = "acknowledges events and keeps none: it has no confirmed subscription"


async def check(options: AwsOptions, names: Sequence[str] | None, context: CheckContext) -> list[Finding]:
    """Look for the queue or topic of each event type. Raises BrokerUnreachable, ConfigError."""
    if names is None:
        return []
    noun = KINDS[options.kind].noun
    advice = f"create the {noun} or grant the right; until then its events are retried and become dead letters"
    findings = []
    for name, problem in (await look(options, names)).items():
        level, remedy = Level.ERROR, advice
        if problem.endswith(_KEEPS_NONE):
            level, remedy = Level.WARNING, "subscribe a queue or an endpoint to it, and confirm that"
        findings.append(Finding(level, f"{noun}s", f"event type {name!r}: {problem}", remedy))
    return findings or [all_exist(f"{noun}s", noun, names, context.sample)]


async def look(options: AwsOptions, event_types: Sequence[str]) -> dict[str, str]:
    """What is wrong with the queue or topic of each event type; those that exist are left out.

    Raises BrokerUnreachable, ConfigError.
    """
    target = read_target(options)
    service, wrong = service_of(options, target), {}
    client = await AwsClient.connect(options.kind, options, target)
    try:
        for event_type in event_types:
            name = name_of(event_type, options.kind, options.name_replacement)
            if isinstance(name, Permanent):
                wrong[event_type] = name.reason
            elif (problem := await _problem(service, client, name)) is not None:
                wrong[event_type] = f"{service.noun} {name!r} {problem}"
    except BrokerUnreachable as error:
        raise BrokerUnreachable(f"{target}: {error}") from None
    finally:
        await client.close()
    return wrong


async def _problem(service: Service, client: AwsClient, name: str) -> str | None:
    """What is wrong with one queue or topic. Raises BrokerUnreachable."""
    try:
        if not await service.exists(client, name):
            return "does not exist"
        return None if await service.keeps(client, name) else _KEEPS_NONE
    except FAILURES as error:
        outcome = classify(error)
        if isinstance(outcome, Transient):
            return f"cannot be looked up: {outcome.code}: {outcome.reason}"
        raise BrokerUnreachable(getattr(outcome, "reason", str(error))) from None
