"""Which events a closed channel is about, by the server's text."""

from __future__ import annotations

from relay.brokers.rabbitmq.errors import blame
from relay.core.outcome import Permanent, Transient
from tests.brokers.harness.base import make_event


def test_a_missing_or_forbidden_exchange_is_about_all() -> None:
    for code, text, name in (
        (404, "NOT_FOUND - no exchange 'x' in vhost '/'", "NOT_FOUND"),
        (403, "ACCESS_REFUSED - write access to exchange 'x' in vhost '/' refused for user 'u'", "ACCESS_REFUSED"),
    ):
        found = blame(code, text)
        assert found is not None
        assert found.outcome == Transient(name, text)
        assert found.refuses(make_event("any"))


def test_a_topic_is_about_its_events() -> None:
    text = "ACCESS_REFUSED - write access to topic 'a.'b' in exchange 'x' in vhost '/' refused for user 'u'"
    found = blame(403, text)
    assert found is not None
    assert [found.refuses(make_event(name)) for name in ("a.'b", "a.", "b")] == [True, False, False]


def test_a_topic_that_the_server_has_cut_is_about_the_events_that_begin_so() -> None:
    found = blame(403, f"ACCESS_REFUSED - write access to topic '{'a' * 212}...")
    assert found is not None
    assert not found.certain
    names = ("a" * 212, "a" * 230, "a" * 211, "b")
    assert [found.refuses(make_event(name)) for name in names] == [True, True, False, False]


def test_a_size_is_about_what_is_larger() -> None:
    found = blame(406, "PRECONDITION_FAILED - message size 30 is larger than configured max size 20")
    assert found is not None
    assert isinstance(found.outcome, Permanent)
    assert found.max_size == 20
    assert [found.refuses(make_event("a", b"x" * size)) for size in (20, 21, 30)] == [False, True, True]


def test_the_size_is_that_of_the_body_as_a_format_makes_it() -> None:
    text = "PRECONDITION_FAILED - message size 30 is larger than configured max size 20"
    found = blame(406, text, lambda event: 2 * len(event.payload))
    assert found is not None
    assert [found.refuses(make_event("a", b"x" * size)) for size in (10, 11)] == [False, True]


def test_any_other_text_names_nobody() -> None:
    assert blame(406, "PRECONDITION_FAILED - invalid expiration") is None
    assert blame(541, "INTERNAL_ERROR") is None
