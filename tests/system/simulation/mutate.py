"""Change a line of a module for as long as a test runs: its functions are compiled again from the changed source."""

from __future__ import annotations

import importlib
import inspect
from types import FunctionType, ModuleType
from typing import Any

import pytest


def mutate(patch: pytest.MonkeyPatch, module_name: str, old: str, new: str) -> None:
    """Replace ``old``, which must occur once in the module's source, in every function of its classes."""
    module = importlib.import_module(module_name)
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{module_name} holds {source.count(old)} times: {old}"
    changed: dict[str, Any] = dict(vars(module))
    exec(compile(source.replace(old, new), module.__file__ or "", "exec"), changed)
    for name, value in changed.items():
        if getattr(value, "__module__", None) == module_name:
            _take_over(patch, module, name, value)


def _take_over(patch: pytest.MonkeyPatch, module: ModuleType, name: str, value: object) -> None:
    """Give the original class or function the code of the changed one; what refers to it sees the change."""
    original = getattr(module, name)
    if isinstance(value, FunctionType):
        patch.setattr(original, "__code__", value.__code__)
    elif isinstance(value, type):
        for each, member in vars(value).items():
            was = vars(original).get(each)
            mine, theirs = _function(member), _function(was)
            if mine is not None and theirs is not None and mine.__code__ != theirs.__code__:
                patch.setattr(theirs, "__code__", mine.__code__)


def _function(member: object) -> FunctionType | None:
    member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return member if isinstance(member, FunctionType) else None
