"""The errors of SQS, SNS and STS and of their client, sorted into the outcomes of docs/reference/messages.md#errors.

One table of codes for a request that is refused as a whole and for a single entry of it. SQS writes its codes with or
without ``AWS.SimpleQueueService.`` in front, SNS some with ``Exception`` behind; both are taken off.

An answer in place of the service's own, from a gateway for example, is no proof that the service cannot be reached: a
gateway may refuse one message. It is held against the events of that request, as a cut connection is: the engine probes
and then offers them again in ever smaller groups.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from aiohttp import ClientConnectorError
from botocore import exceptions
from botocore.parsers import ResponseParserError

from relay.core.errors import BrokerUnreachable, reason_of
from relay.core.outcome import ConnectionCut, Outcome, Permanent, TimedOut, Transient, Unreachable

CodeKind = type[Permanent] | type[Transient] | type[Unreachable] | type[ConnectionCut]

CREDENTIALS: Final = frozenset(
    {
        "InvalidClientTokenId",  # no such access key, or a session token that is not its
        "UnrecognizedClient",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",  # the secret is wrong
        "InvalidSignature",
        "IncompleteSignature",
        "ExpiredToken",
        "RequestExpired",  # the clock of this host is wrong
        "RequestTimeTooSkewed",
        "MissingAuthenticationToken",
        "InvalidSecurity",
        "OptInRequired",  # the account has not subscribed to the service, or not enabled the region
        "AccountProblem",
    }
)
"""The codes that refuse the sender of a request, whatever is in it."""

MISSING: Final = frozenset({"NonExistentQueue", "QueueDoesNotExist", "NotFound"})
"""The codes of a queue or topic that does not exist."""

CODES: Final[MappingProxyType[str, CodeKind]] = MappingProxyType(
    {
        **dict.fromkeys(CREDENTIALS, Unreachable),
        "ServiceUnavailable": ConnectionCut,
        # This service can never accept the message.
        "InvalidMessageContents": Permanent,
        "BatchRequestTooLong": Permanent,
        "RequestEntityTooLarge": Permanent,
        "RequestTooLarge": Permanent,
        # An operator can create, grant or correct these.
        **dict.fromkeys(MISSING, Transient),
        "QueueDeletedRecently": Transient,
        "AccessDenied": Transient,
        "AuthorizationError": Transient,
        "NotAuthorized": Transient,
        "KmsAccessDenied": Transient,
        "KmsDisabled": Transient,
        "KmsInvalidKeyUsage": Transient,
        "KmsInvalidState": Transient,
        "KmsNotFound": Transient,
        "KmsOptInRequired": Transient,
        # Time does.
        "KmsThrottled": Transient,
        "KMSThrottling": Transient,
        "Throttling": Transient,
        "Throttled": Transient,
        "RequestThrottled": Transient,
        "RequestLimitExceeded": Transient,
        "TooManyRequests": Transient,
        "SlowDown": Transient,
        "OverLimit": Transient,
        "InternalError": Transient,
        "InternalFailure": Transient,
        # Everything else is transient too, unless its text says that the message is too large.
    }
)

_TOO_LARGE: Final = re.compile(
    r"must be shorter than|too long|longer than|exceed\w* .{0,40}(?:size|limit|bytes)", re.IGNORECASE
)
_GATEWAY: Final = frozenset({502, 503, 504})
_REFUSED: Final = frozenset({401, 403, 407})
_BAD: Final = 400

CLIENT: Final[MappingProxyType[type[Exception], str]] = MappingProxyType(
    {
        # No credentials, or no answer from where they come from.
        exceptions.NoCredentialsError: "CREDENTIALS",
        exceptions.PartialCredentialsError: "CREDENTIALS",
        exceptions.CredentialRetrievalError: "CREDENTIALS",
        exceptions.TokenRetrievalError: "CREDENTIALS",
        exceptions.MetadataRetrievalError: "CREDENTIALS",
        exceptions.SSOError: "CREDENTIALS",
        exceptions.ProfileNotFound: "CREDENTIALS",
        exceptions.InvalidConfigError: "CREDENTIALS",
        exceptions.ConfigParseError: "CREDENTIALS",
        exceptions.ConfigNotFound: "CREDENTIALS",
        # No connection.
        exceptions.ConnectTimeoutError: "CONNECTION",
        exceptions.ProxyConnectionError: "CONNECTION",
        exceptions.SSLError: "TLS",
        exceptions.InvalidEndpointConfigurationError: "ENDPOINT",
        exceptions.EndpointProviderError: "ENDPOINT",
    }
)
"""Errors of the client that mean that nothing was sent, and the code that the reason begins with."""

_CUT: Final = (
    exceptions.EndpointConnectionError,  # of a connection that was lost: see ``_unsent``
    exceptions.ConnectionClosedError,
    exceptions.IncompleteReadError,
    exceptions.ResponseStreamingError,
    exceptions.HTTPClientError,
    OSError,
)


def classify(error: Exception) -> Outcome:
    """The outcome of the events of a request that failed with this error."""
    if isinstance(error, exceptions.ClientError):
        return refusal(code_of(_details(error)), str(_details(error).get("Message", "")), _status(error))
    unsent = _unsent(error)
    if unsent is not None:
        return Unreachable(unsent)
    if isinstance(error, ResponseParserError):
        return ConnectionCut("PROTOCOL: the server that answers is not an AWS service")
    if isinstance(error, exceptions.ReadTimeoutError | TimeoutError):
        return TimedOut("TIMEOUT", str(error) or "no answer in time")
    return ConnectionCut(reason(error)) if isinstance(error, _CUT) else Transient(type(error).__name__, str(error))


def refusal(code: str, text: str, status: int = 0) -> Outcome:
    """The outcome that a service's code means; ``status`` is that of HTTP, 0 for one entry of a request."""
    kind = CODES.get(code)
    if kind is None and (status in _GATEWAY or (code.isdigit() and status in _REFUSED)):
        kind = ConnectionCut  # a load balancer or proxy answers in place of the service
    if kind is None and "LimitExceeded" not in code and _TOO_LARGE.search(text):  # a limit of rate or bandwidth passes
        kind = Permanent
    if code in CREDENTIALS:  # behind the first line some services repeat the request, its session token included
        text = text.partition("\n")[0]
    if kind is ConnectionCut and not status:  # one entry of a request that the service has answered
        kind = Transient
    if kind is Unreachable or kind is ConnectionCut:
        return kind(f"{code}: {text}")
    return (kind or Transient)(code or "UNKNOWN", text)  # type: ignore[call-arg]


def code_of(details: Mapping[str, Any]) -> str:
    """A service's code without what stands around it; ``details`` are an error or a failed entry of a batch."""
    return str(details.get("Code", "")).rpartition(".")[2].removesuffix("Exception")


def is_missing(error: Exception) -> bool:
    """Whether a queue or topic does not exist."""
    return isinstance(error, exceptions.ClientError) and code_of(_details(error)) in MISSING


def refuses_credentials(error: Exception) -> bool:
    """Whether the sender is refused, whatever it sends."""
    return isinstance(error, exceptions.ClientError) and code_of(_details(error)) in CREDENTIALS


def about_one(error: Exception, outcome: Outcome) -> bool:
    """Whether a request may have been refused for one of its messages: permanently, or by a code that says nothing."""
    if isinstance(outcome, Permanent):
        return True
    return (
        isinstance(error, exceptions.ClientError) and _status(error) == _BAD and code_of(_details(error)) not in CODES
    )


def _details(error: exceptions.ClientError) -> Mapping[str, Any]:
    details: Mapping[str, Any] = error.response.get("Error", {})
    return details


def _status(error: exceptions.ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def reason(error: Exception) -> str:
    """What the client's library wraps, in words."""
    inner = getattr(error, "kwargs", {}).get("error")
    if isinstance(inner, OSError):
        return reason_of(inner)
    return str(inner or error) or type(error).__name__


def _unsent(error: Exception) -> str | None:
    """Why nothing was sent; None where the request may have arrived."""
    if isinstance(error, BrokerUnreachable):
        return str(error)
    code = next((CLIENT[base] for base in type(error).__mro__ if base in CLIENT), None)
    if code is None and isinstance(getattr(error, "kwargs", {}).get("error"), ClientConnectorError):
        code = "CONNECTION"  # the client's library has one error for this and for a connection that was lost
    return None if code is None else f"{code}: {reason(error)}"
