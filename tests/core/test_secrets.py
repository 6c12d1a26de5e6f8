"""Passwords do not survive masking, whatever surrounds them, and the rest of the text does."""

from __future__ import annotations

import pytest

from relay.core.secrets import mask_secrets, mask_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://u:pw@h:5432/db?sslmode=require", "postgres://u:***@h:5432/db?sslmode=require"),
        ("postgres://u:p@w/x@h/db", "postgres://u:***@h/db"),
        ("postgres://h/db", "postgres://h/db"),
        ("postgres://h/db?user=u&password=pw&sslmode=require", "postgres://h/db?user=u&password=***&sslmode=require"),
        ("host=h user=u password=pw dbname=d", "host=h user=u password=*** dbname=d"),
        ("host=h password='p w' dbname=d", "host=h password=*** dbname=d"),
        ("nats://token@h:4222", "nats://***@h:4222"),
        ("nats://u:pw@h1,nats://u:pw@h2:4222", "nats://u:***@h1,nats://u:***@h2:4222"),
        ("redis://:pw@h:6379/0", "redis://:***@h:6379/0"),
        ("u:pw@h:9092", "***@h:9092"),
        ("h1:9092,h2:9092", "h1:9092,h2:9092"),
        ("kafka://h:9092?sasl.username=u&sasl.password=pw", "kafka://h:9092?sasl.username=u&sasl.password=***"),
        ("kafka://h:9092?ssl.key.passphrase=pw&x=1", "kafka://h:9092?ssl.key.passphrase=***&x=1"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_urls_inside_other_text_are_masked() -> None:
    text = 'connection to "postgres://u:pw@h/db" failed, then "redis://:pw@h" too (a@b)'

    assert mask_secrets(text) == 'connection to "postgres://u:***@h/db" failed, then "redis://:***@h" too (a@b)'
