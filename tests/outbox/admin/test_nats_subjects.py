"""NATS's rule for subjects."""

from __future__ import annotations

import pytest

from relay.brokers.nats.streams import subject_matches


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        ("user.signup", "user.signup", True),
        ("user.signup", "user.signup.late", False),
        ("user.*", "user.signup", True),
        ("user.*", "user.signup.late", False),
        ("user.*", "user", False),
        ("*.signup", "user.signup", True),
        ("user.>", "user.signup.late", True),
        ("user.>", "user", False),
        (">", "user", True),
        ("user.*.late", "user.signup.late", True),
    ],
)
def test_a_stream_takes_what_its_subjects_say(pattern: str, subject: str, matches: bool) -> None:
    assert subject_matches(pattern, subject) is matches
