"""The public names of ``openoutbox``, and the former name of the package."""

from __future__ import annotations

import importlib
import sys

import pytest

import openoutbox


@pytest.mark.parametrize("name", openoutbox.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(openoutbox, name) is not None


def test_another_name_does_not() -> None:
    with pytest.raises(AttributeError, match="enqeue"):
        openoutbox.enqeue  # type: ignore[attr-defined] # noqa: B018


def test_the_former_name_works_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("relay", reason="the client alone")
    for name in ("relay.client", "relay.client.inbox"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.warns(DeprecationWarning, match="import openoutbox"):
        former = importlib.import_module("relay.client")
    assert former.enqueue is openoutbox.enqueue
    assert importlib.import_module("relay.client.inbox").once is importlib.import_module("openoutbox.inbox").once
