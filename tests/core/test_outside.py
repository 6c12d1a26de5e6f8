"""Text from outside is cut before it is looked at, and no secret at the cut is shown."""

from __future__ import annotations

from relay.core.outside import LONGEST_TEXT, cut, shown


def test_a_short_text_stays() -> None:
    assert cut("a" * LONGEST_TEXT) == "a" * LONGEST_TEXT
    assert shown("refused by nats://n1:4222") == "refused by nats://n1:4222"


def test_a_long_text_is_cut_and_says_so() -> None:
    assert cut("a" * (LONGEST_TEXT + 1)) == "a" * (LONGEST_TEXT - 1) + "…"
    assert cut("abcdef", 3) == "ab…"
    assert shown("b" * 10_000_000) == "b" * (LONGEST_TEXT - 1) + "…"


def test_a_secret_that_the_cut_divides_is_masked() -> None:
    for before in range(LONGEST_TEXT - 40, LONGEST_TEXT):
        assert "qvxzj" not in shown("a" * before + " postgres://u:qvxzj-qvxzj@host/db and more")
