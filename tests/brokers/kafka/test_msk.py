"""The program that prints tokens for Amazon MSK, where it prints none. A broker gets one in test_access."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.brokers.kafka import msk


def test_without_a_region_it_says_what_it_wants(capsys: pytest.CaptureFixture[str]) -> None:
    assert msk.main([]) == 2
    assert capsys.readouterr().err == "usage: python -m relay.brokers.kafka.msk REGION\n"


def test_without_credentials_it_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in nowhere.items():
        monkeypatch.setenv(name, value)
    assert msk.main(["eu-central-1"]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "finds no credentials" in shown.err
