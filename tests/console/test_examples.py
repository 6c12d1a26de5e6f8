"""The examples of the admin API: one of every operation, right by the schemas, and what a console answers."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import httpx
import pytest

from deploy.reference.examples import EXAMPLES, Example
from relay.console.api.document import openapi_document
from relay.console.app import build_console
from relay.console.serve import VARIABLES
from relay.settings.settings import Settings
from tests.console.examples_scene import examples_console
from tests.support.times import other_times

ROOT = "/api/v1"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
NAMES = [f"{example.operation}: {example.name}" for example in EXAMPLES]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The OpenAPI document, which needs no database."""
    settings = Settings.from_env({"STORAGE_URL": "postgres://u@127.0.0.1:1/d"}, only=VARIABLES)
    return openapi_document(build_console(settings))


def operation_of(document: dict[str, Any], example: Example) -> dict[str, Any]:
    method, _, path = example.operation.partition(" ")
    operation: dict[str, Any] = document["paths"][ROOT + path][method.lower()]
    return operation


def check(document: dict[str, Any], schema: dict[str, Any], value: object) -> None:
    """Raises jsonschema.ValidationError for a value that the schema does not allow."""
    import jsonschema  # noqa: PLC0415 - it compiles forty grammars: seconds for each process that collects it

    whole = {"components": document["components"], **schema}
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(whole, format_checker=checker).validate(value)


def test_every_operation_has_an_example_of_its_success_and_each_its_own_name(document: dict[str, Any]) -> None:
    operations = {
        f"{method.upper()} {path.removeprefix(ROOT)}" for path, ways in document["paths"].items() for method in ways
    }

    assert {example.operation for example in EXAMPLES if example.status < 400} == operations
    assert len(set(NAMES)) == len(EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_an_example_is_right_by_the_schemas(document: dict[str, Any], example: Example) -> None:
    operation = operation_of(document, example)
    parameters = {each["name"]: each for each in operation.get("parameters", ())}
    assert len(parameters) == len(operation.get("parameters", ())), "no parameter stands twice"
    required = {name for name, each in parameters.items() if each.get("required")}
    assert required <= example.parameters.keys() <= parameters.keys()
    for name, value in example.parameters.items():
        check(document, parameters[name]["schema"], value)
    if example.body is not None:
        content = operation["requestBody"]["content"]["application/json"]
        check(document, content["schema"], example.body)
    [content] = operation["responses"][str(example.status)]["content"].values()
    check(document, content["schema"], example.answer)


def sent(client: httpx.Client, example: Example) -> httpx.Response:
    """The answer of a console."""
    method, path, query, headers = example.request()
    return client.request(method, ROOT + path, params=query, headers=headers, json=example.body)


def differences(expected: object, answer: object, where: str = "") -> list[str]:
    """Where an answer has other keys or types than the example; other values of one type are no difference."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        expected, answer = (
            {"time" if _TIME.fullmatch(name) else name: value for name, value in one.items()}
            for one in (expected, answer)
        )
        missing = [f"{where}.{name} in one alone" for name in expected.keys() ^ answer.keys()]
        return missing + [
            each
            for name in expected.keys() & answer
            for each in differences(expected[name], answer[name], f"{where}.{name}")
        ]
    if isinstance(expected, list) and isinstance(answer, list):
        if len(expected) != len(answer):
            return [f"{where} has {len(answer)} items, not {len(expected)}"]
        pairs = enumerate(zip(expected, answer, strict=True))
        return [each for index, (one, other) in pairs for each in differences(one, other, f"{where}[{index}]")]
    return [] if kind(expected) == kind(answer) else [f"{where} is {answer!r}, not like {expected!r}"]


def kind(value: object) -> str:
    """The type of a value; of text, whether it is a time or an id."""
    if not isinstance(value, str):
        return type(value).__name__
    if _TIME.fullmatch(value):
        return "time"
    try:
        UUID(value)
    except ValueError:
        return "text"
    return "id"


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": True}),
        ({"a": None}, {"a": "x"}),
        ([{"a": 1}], []),
        ([{"a": 1}], [{"a": "1"}]),
        ("2026-03-10T12:00:00Z", "2026-03-10"),
        ("0190b0a0-0000-7000-8000-000000000001", "event-1"),
    ],
)
def test_another_shape_is_noticed(expected: object, answer: object) -> None:
    assert differences(expected, answer)


@pytest.mark.postgres
def test_a_console_answers_each_example_as_it_says(postgres: str) -> None:
    wrong = {}
    with examples_console(postgres) as address, httpx.Client(base_url=address, timeout=30) as client:
        for name, example in zip(NAMES, EXAMPLES, strict=True):
            answer = sent(client, example)
            found = [f"status {answer.status_code}: {answer.text}"] if answer.status_code != example.status else []
            found += differences(example.answer, answer.json()) + other_times(answer.text)
            if example.status >= 400 and answer.json()["type"] != example.answer["type"]:
                found.append(answer.json()["type"])
            if found:
                wrong[name] = found

    assert wrong == {}
