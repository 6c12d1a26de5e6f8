"""Subjects that NATS refuses, and the outcome of each of its errors."""

from __future__ import annotations

import pytest
from nats import errors

from relay.brokers.nats.errors import EXCEPTIONS, classify_exception, classify_reply, invalid_subject
from relay.core.outcome import Permanent, TimedOut, Transient, Unreachable


@pytest.mark.parametrize(
    "subject",
    ["", ".", "a.", ".a", "a..b", "a b", "a\nb", "a\x7f", "*", "a.*.b", "a.>", "$JS.API.INFO", "$SYS"],
)
def test_impossible_subjects(subject: str) -> None:
    assert isinstance(invalid_subject(subject), Permanent)


@pytest.mark.parametrize(
    "subject", ["_INBOX.a.1", "$KV.b.k", "$O.b.C.x", "$SRV.PING", "$MQTT.m", "$JS.API.INFO", "$SYS"]
)
def test_a_subject_that_steers_the_server_is_refused_unless_a_pattern_begins_so(subject: str) -> None:
    patterns: list[list[str]] = [[], ["*"], ["$*", "_*"], ["other.*", "$KV.other.*"]]
    for others in patterns:
        refused = invalid_subject(subject, others)
        assert isinstance(refused, Permanent)
        assert refused.code == "NOT_ALLOWED"
    allowed = ("$KV.b.*", "_INBOX.a.*", "$O.*", "$SRV.PING", "$MQTT.*")
    assert (invalid_subject(subject, allowed) is None) == (not subject.startswith(("$JS", "$SYS")))
    refused = invalid_subject(subject, [*allowed, "$JS.API.INFO", "$SYS*"])
    assert refused is None or refused.code == "BAD_SUBJECT"


@pytest.mark.parametrize("subject", ["$KV", "_INBOX"])
def test_its_beginning_alone_is_such_a_subject(subject: str) -> None:
    assert isinstance(invalid_subject(subject), Permanent)


@pytest.mark.parametrize(
    "subject",
    ["_INBOXES", "a._INBOX.b", "$KVS.a", "a", "user.signup", "a*b", "a>.b", "x" * 5000, "ü", "$JSON.a", "a/b"],
)
def test_possible_subjects(subject: str) -> None:
    assert invalid_subject(subject) is None


@pytest.mark.parametrize(
    "name", [n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.Error)]
)
def test_every_error_of_the_library_has_an_outcome(name: str) -> None:
    kind = getattr(errors, name)
    expected = next((EXCEPTIONS[base] for base in kind.__mro__ if base in EXCEPTIONS), Transient)
    # Some of them want arguments, and print them.
    error = type(name, (kind,), {"__init__": lambda _: None, "__str__": lambda _: "text"})()
    assert type(classify_exception(error)) is expected


def test_the_most_specific_class_decides() -> None:
    assert isinstance(classify_exception(errors.TimeoutError()), TimedOut)
    assert isinstance(classify_exception(ConnectionResetError("gone")), Unreachable)
    assert isinstance(classify_exception(errors.Error("new")), Transient)


@pytest.mark.parametrize(("code", "kind"), [(10054, Permanent), (10097, Permanent), (10077, Transient), (0, Transient)])
def test_replies(code: int, kind: type[Permanent] | type[Transient]) -> None:
    outcome = classify_reply(code, "why")
    assert type(outcome) is kind
    assert outcome == kind(f"JETSTREAM_{code}", "why")
