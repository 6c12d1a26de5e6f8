"""Errors of SQS, SNS and STS, in the shapes in which botocore raises them, to outcomes."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import ClientConnectorError, ClientOSError
from aiohttp.client_reqrep import ConnectionKey
from botocore import exceptions
from botocore.parsers import ResponseParserError
from botocore.session import Session

from relay.brokers.aws.errors import CODES, about_one, classify, code_of, is_missing, refusal, refuses_credentials
from relay.core.errors import BrokerUnreachable
from relay.core.outcome import ConnectionCut, Permanent, TimedOut, Transient, Unreachable

URL = "https://sqs.eu-central-1.amazonaws.com/"


def refused(code: str, text: str = "text", status: int = 400) -> exceptions.ClientError:
    response: Any = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return exceptions.ClientError(response, "SendMessageBatch")


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("InvalidClientTokenId", 403, Unreachable),
        ("SignatureDoesNotMatch", 403, Unreachable),
        ("ExpiredToken", 403, Unreachable),
        ("RequestExpired", 400, Unreachable),
        ("RequestTimeTooSkewed", 403, Unreachable),
        ("InvalidSignatureException", 403, Unreachable),
        ("ExpiredTokenException", 400, Unreachable),
        ("UnrecognizedClientException", 400, Unreachable),
        ("ServiceUnavailable", 503, ConnectionCut),
        ("ServiceUnavailable", 0, Transient),
        ("503", 503, ConnectionCut),
        ("502", 502, ConnectionCut),
        ("403", 403, ConnectionCut),
        ("SomethingNew", 403, Transient),
        ("InternalError", 500, Transient),
        ("InternalFailure", 500, Transient),
        ("ThrottlingException", 400, Transient),
        ("Throttling", 503, Transient),
        ("RequestThrottled", 403, Transient),
        ("KmsThrottled", 400, Transient),
        ("KMS.ThrottlingException", 400, Transient),
        ("AWS.SimpleQueueService.NonExistentQueue", 400, Transient),
        ("QueueDoesNotExist", 400, Transient),
        ("NotFound", 404, Transient),
        ("AccessDenied", 403, Transient),
        ("AuthorizationError", 403, Transient),
        ("KMSAccessDenied", 400, Transient),
        ("OverLimit", 403, Transient),
        ("InvalidMessageContents", 400, Permanent),
        ("AWS.SimpleQueueService.BatchRequestTooLong", 400, Permanent),
        ("SomethingNew", 400, Transient),
    ],
)
def test_a_code_has_its_outcome(code: str, status: int, kind: type) -> None:
    outcome = classify(refused(code, status=status))
    assert type(outcome) is kind
    assert code.rpartition(".")[2].removesuffix("Exception") in str(outcome)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            "InvalidParameterValue",
            "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
        ),
        ("InvalidParameter", "Invalid parameter: Message too long"),
    ],
)
def test_a_text_about_the_size_is_permanent(code: str, text: str) -> None:
    assert refusal(code, text) == Permanent(code, text)
    assert refusal(code, "something else") == Transient(code, "something else")


def test_a_limit_of_the_account_is_no_limit_of_the_message() -> None:
    text = "The request exceeded the bandwidth limit."
    assert refusal("BandwidthLimitExceeded", text) == Transient("BandwidthLimitExceeded", text)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (exceptions.NoCredentialsError(), Unreachable, "CREDENTIALS: Unable to locate credentials"),
        (exceptions.CredentialRetrievalError(provider="sso", error_msg="gone"), Unreachable, "CREDENTIALS"),
        (exceptions.ConnectTimeoutError(endpoint_url=URL, error=None), Unreachable, "CONNECTION"),
        (exceptions.SSLError(endpoint_url=URL, error=OSError("certificate verify failed")), Unreachable, "TLS: cert"),
        (exceptions.ReadTimeoutError(endpoint_url=URL, error=None), TimedOut, "TIMEOUT"),
        (TimeoutError("no answer within 1 s"), TimedOut, "no answer within 1 s"),
        (exceptions.ConnectionClosedError(endpoint_url=URL, error=None), ConnectionCut, ""),
        (
            exceptions.EndpointConnectionError(endpoint_url=URL, error=ClientOSError(104, "reset")),
            ConnectionCut,
            "reset",
        ),
        (
            exceptions.EndpointConnectionError(
                endpoint_url=URL,
                error=ClientConnectorError(
                    ConnectionKey("h", 1, False, True, None, None, None), OSError(111, "Connection refused")
                ),
            ),
            Unreachable,
            "CONNECTION: Connection refused",
        ),
        (exceptions.HTTPClientError(error=OSError("broken pipe")), ConnectionCut, "broken pipe"),
        (ResponseParserError("not XML"), ConnectionCut, "the server that answers is not an AWS service"),
        (BrokerUnreachable("why"), Unreachable, "why"),
        (exceptions.ParamValidationError(report="bad"), Transient, "ParamValidationError"),
    ],
)
def test_an_error_of_the_client_has_its_outcome(error: Exception, kind: type, words: str) -> None:
    outcome = classify(error)
    assert type(outcome) is kind
    assert words in str(outcome)


@pytest.mark.parametrize("service", ["sqs", "sns"])
def test_every_code_that_a_send_may_meet_is_in_the_table(service: str) -> None:
    """By botocore's own description of the services, but for those that say that a request is malformed."""
    model = Session().get_service_model(service)
    sends = ("SendMessageBatch", "GetQueueUrl") if service == "sqs" else ("PublishBatch",)
    codes = {
        code_of({"Code": shape.metadata.get("error", {}).get("code", shape.name)})
        for send in sends
        for shape in model.operation_model(send).error_shapes
    }
    malformed = {
        "BatchEntryIdsNotDistinct", "EmptyBatchRequest", "InvalidAddress", "InvalidBatchEntryId", "InvalidParameter",
        "ParameterValueInvalid", "TooManyEntriesInBatchRequest", "UnsupportedOperation", "Validation",
    }  # fmt: skip
    kms = {code for code in codes if code.lower().startswith("kms")}
    platform = {"EndpointDisabled", "PlatformApplicationDisabled"}  # of topics' subscribers on phones
    assert codes - malformed - kms - platform <= CODES.keys()
    assert {type(refusal(code, "")) for code in kms} == {Transient}


def test_what_is_asked_about_a_refusal() -> None:
    assert is_missing(refused("AWS.SimpleQueueService.NonExistentQueue"))
    assert not is_missing(refused("AccessDenied"))
    assert not is_missing(OSError())
    assert refuses_credentials(refused("ExpiredToken"))
    assert not refuses_credentials(refused("AccessDenied", status=403))
    for code, one in (("BatchRequestTooLong", True), ("InvalidParameterValue", True), ("RequestThrottled", False)):
        error = refused(code)
        assert about_one(error, classify(error)) is one
    assert not about_one(OSError(), classify(OSError()))


def test_a_wrong_signature_shows_nothing_of_the_request() -> None:
    text = "The signature does not match.\n\nThe Canonical String should have been\n'POST\nx-amz-security-token:TOKEN'"
    assert classify(refused("SignatureDoesNotMatch", text, 403)) == Unreachable(
        "SignatureDoesNotMatch: The signature does not match."
    )
