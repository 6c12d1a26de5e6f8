"""NATS without a server: header encoding, subjects, error tables, the URL."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats import errors

from relay.brokers.nats.errors import EXCEPTIONS, classify_exception, classify_reply, invalid_subject
from relay.brokers.nats.headers import block_size, encode_name, encode_value, message_headers
from relay.brokers.nats.options import NatsOptions, connect_arguments
from relay.core.errors import ConfigError
from relay.core.outcome import Permanent, TimedOut, Transient, Unreachable
from tests.brokers.harness.base import make_event


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("trace-id", "trace-id"),
        ("a%b", "a%b"),
        ("two words", "two%20words"),
        ("co:lon 100%", "co%3Alon%20100%25"),
        ("ü", "%C3%BC"),
        ("", "X-Empty-Name"),
        ("Nats-Msg-Id", "X-Nats-Msg-Id"),
        ("nats-rollup", "X-nats-rollup"),
        ("X-Partition-Key", "X-User-X-Partition-Key"),
        ("x-partition-key", "X-User-x-partition-key"),
        ("Native", "Native"),
    ],
)
def test_names(name: str, sent: str) -> None:
    assert encode_name(name) == sent


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("", ""),
        ("a b", "a b"),
        ("100%", "100%"),
        ("a%20b", "a%20b"),
        ("a\r\nb", "a%0D%0Ab"),
        ("100%\n", "100%25%0A"),
        (" padded ", "%20padded%20"),
        ("\u00a0x", "%C2%A0x"),
        ("ü 🎉", "ü 🎉"),
    ],
)
def test_values(value: str, sent: str) -> None:
    assert encode_value(value) == sent


@given(st.text())
def test_an_encoded_value_is_one_line_and_decodes_to_the_original(value: str) -> None:
    sent = encode_value(value)
    assert not {"\r", "\n", "\x00"} & set(sent)
    assert sent == sent.strip()
    assert sent == value or unquote(sent) == value


@given(st.text())
def test_an_encoded_name_is_a_token(name: str) -> None:
    sent = encode_name(name)
    assert sent
    assert sent.isascii()
    assert not set(sent) & set(' :"()<>@,;\\/[]?={}\r\n\t')
    assert not sent.lower().startswith("nats-")


def test_names_that_meet_after_encoding_both_arrive() -> None:
    headers = message_headers(make_event("s", headers=json.dumps({"X-Nats-A": "1", "Nats-A": "2"})))
    assert list(headers.values())[1:] == ["1", "2"]


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_the_header_block_is_measured_in_bytes(headers: dict[str, str]) -> None:
    wire = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
    assert block_size(headers) == len(wire.encode())


@pytest.mark.parametrize(
    "subject",
    ["", ".", "a.", ".a", "a..b", "a b", "a\nb", "a\x7f", "*", "a.*.b", "a.>", "$JS.API.INFO", "$SYS"],
)
def test_impossible_subjects(subject: str) -> None:
    assert isinstance(invalid_subject(subject), Permanent)


@pytest.mark.parametrize("subject", ["a", "user.signup", "a*b", "a>.b", "x" * 5000, "ü", "$JSON.a", "a/b"])
def test_possible_subjects(subject: str) -> None:
    assert invalid_subject(subject) is None


@pytest.mark.parametrize(
    "name", [n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.Error)]
)
def test_every_error_of_the_library_has_an_outcome(name: str) -> None:
    kind = getattr(errors, name)
    expected = next((EXCEPTIONS[base] for base in kind.__mro__ if base in EXCEPTIONS), Transient)
    # Some of them want arguments, and print them.
    made = type(name, (kind,), {"__init__": lambda _: None, "__str__": lambda _: "text"})()
    assert type(classify_exception(made)) is expected


def test_the_most_specific_class_decides() -> None:
    assert isinstance(classify_exception(errors.TimeoutError()), TimedOut)
    assert isinstance(classify_exception(ConnectionResetError("gone")), Unreachable)
    assert isinstance(classify_exception(errors.Error("new")), Transient)


@pytest.mark.parametrize(("code", "kind"), [(10054, Permanent), (10097, Permanent), (10077, Transient), (0, Transient)])
def test_replies(code: int, kind: type[Permanent] | type[Transient]) -> None:
    outcome = classify_reply(code, "why")
    assert type(outcome) is kind
    assert outcome == kind(f"JETSTREAM_{code}", "why")


def test_urls() -> None:
    arguments = connect_arguments(NatsOptions("nats://us%40er:p%3Aw@a:4222,nats://b:4223"))
    assert arguments["servers"] == ["nats://a:4222", "nats://b:4223"]
    assert (arguments["user"], arguments["password"]) == ("us@er", "p:w")
    assert connect_arguments(NatsOptions("nats://tok%2Fen@a"))["token"] == "tok/en"
    assert connect_arguments(NatsOptions("a:1"))["servers"] == ["nats://a:1"]
    assert "tls" in connect_arguments(NatsOptions("tls://a:1"))
    assert "hunter2" not in repr(NatsOptions("nats://u:hunter2@a"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "names no NATS server"),
        ("nats://", "names no NATS server"),
        ("http://a", "not a NATS scheme"),
        ("nats://a?bogus=1", "bogus"),
        ("nats://a?tls_ca=/not/there", "tls_"),
    ],
)
def test_wrong_urls(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        connect_arguments(NatsOptions(url))
