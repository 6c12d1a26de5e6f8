"""What the SQS and SNS publishers can be configured with, and what PUBLISHER_URL says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit

from relay.brokers.files import check_files
from relay.core.errors import ConfigError

Kind = Literal["sqs", "sns"]

_URL: Final = re.compile(r"(?P<scheme>sqs|sns)://(?P<region>[a-z0-9-]*)/?(?:\?(?P<query>[^#]*))?", re.IGNORECASE)
_ARN_PREFIX: Final = re.compile(r"arn:[a-z0-9-]+:sns:[a-z0-9-]+:\d{12}:")
_PARAMETERS: Final = frozenset({"endpoint", "tls_ca"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsOptions:
    """Times are seconds, sizes are bytes. What a variable sets has no default here: ``relay.settings`` holds it."""

    kind: Kind
    url: str = field(repr=False)
    """``sqs://eu-central-1`` or ``sns://eu-central-1``; credentials come from the SDK's standard chain.

    The query may name another ``endpoint`` (``http://127.0.0.1:4566``) and a file of authorities, ``tls_ca``.
    """
    publish_timeout: float
    """From the sending of a request to its answer, while no bytes are on their way."""
    connection_timeout: float
    """For one connection, TLS included."""
    name_replacement: str
    """What replaces each ``.``, ``/`` and ``:`` of an event type in a name."""
    topic_arn_prefix: str | None = None
    """SNS: what precedes a topic's name in its ARN; None: the credentials' account, and the region of the URL."""
    receipts: bool
    """Whether an acknowledgement carries the message's id."""
    max_requests: int = 32
    """Most requests in flight to one queue or topic."""
    max_batch: int = 256 * 1024
    """Bytes of one request's messages, unless it has one message alone."""
    max_message: int = 1024 * 1024
    """Largest message of any queue or topic; a larger one is not sent."""


@dataclass(frozen=True, slots=True)
class AwsTarget:
    """What PUBLISHER_URL says."""

    region: str
    endpoint: str | None
    tls_ca: str | None

    def __str__(self) -> str:
        return self.endpoint or self.region


def read_target(options: AwsOptions) -> AwsTarget:
    """Read the URL. Raises ConfigError, without any part of a login, for an invalid one."""
    shape = f"write {options.kind}://eu-central-1 or {options.kind}://eu-central-1?endpoint=http://127.0.0.1:4566"
    if "@" in options.url.partition("?")[0]:
        raise ConfigError(
            f"PUBLISHER_URL holds a login; {shape}. Credentials come from the standard chain of AWS: environment "
            "variables, shared files, web identity, or the role of the instance"
        )
    match = _URL.fullmatch(options.url.strip())
    if match is None or not match["region"]:
        raise ConfigError(f"PUBLISHER_URL names no region; {shape}")
    if options.topic_arn_prefix is not None and not _ARN_PREFIX.fullmatch(options.topic_arn_prefix):
        raise ConfigError(
            f"SNS_TOPIC_ARN_PREFIX={options.topic_arn_prefix!r} is not the beginning of a topic's ARN; write for "
            "example arn:aws:sns:eu-central-1:123456789012: with the colon at its end"
        )
    parameters = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    if unknown := sorted(parameters.keys() - _PARAMETERS):
        known = ", ".join(sorted(_PARAMETERS))
        raise ConfigError(f"PUBLISHER_URL: {unknown[0]!r} is not known; {options.kind.upper()} takes {known}")
    check_files(parameters, ["tls_ca"])
    endpoint = parameters.get("endpoint")
    if endpoint is not None:
        _check_endpoint(endpoint)
    return AwsTarget(match["region"].lower(), endpoint, parameters.get("tls_ca"))


def _check_endpoint(endpoint: str) -> None:
    """Raise ConfigError for what is no web address; it may hold a password, so it is not shown."""
    try:
        parts = urlsplit(endpoint)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        valid = False
    if not valid or "@" in endpoint:
        raise ConfigError("PUBLISHER_URL: endpoint is not an address; write for example endpoint=http://127.0.0.1:4566")
