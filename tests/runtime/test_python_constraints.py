"""Constraints from Python: generate() and Chat.say() of libthimble."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from pydantic import BaseModel

from runtime import Chat, Engine, Runner, RunnerError


class Address(BaseModel):
    street: str
    number: int | None = None


class Person(BaseModel):
    name: str
    homes: list[Address]


# pydantic tells no bounds, and the model that ships with the package knows no end of a text.
SHORT = {"maxLength": 8}
PERSON = Person.model_json_schema()
PERSON["properties"]["name"] |= SHORT
PERSON["$defs"]["Address"]["properties"]["street"] |= SHORT
PERSON["properties"]["homes"]["maxItems"] = 2
SAMPLED = {"temperature": 1.5, "seed": 5, "max_new_tokens": 300}


@pytest.fixture
def runner(embedded_cpu_pte: Path, cpp_build: Path) -> Iterator[Runner]:
    with Runner(embedded_cpu_pte, threads=1) as runner:
        yield runner


def test_every_constraint(runner: Runner) -> None:
    def said(**options: object) -> str:
        return "".join(runner.generate("It is ", **SAMPLED, **options))  # type: ignore[arg-type]

    person = said(json_schema=PERSON)
    if not runner.stats["incomplete"]:
        Person.model_validate_json(person)
    assert said(json_schema=json.dumps({"const": "é"})) == '"é"'
    assert said(json_schema=True)
    assert re.fullmatch("[a-z]{5}", said(regex="[a-z]{5}"))
    assert said(choice=["yes", 'n"o']) in ("yes", 'n"o')
    assert said(grammar='root ::= "a"{3}') == "aaa"
    free = said()
    assert free == "".join(runner.generate("It is ", **SAMPLED))  # type: ignore[arg-type]


def test_stats_and_notes(runner: Runner) -> None:
    schema = {"oneOf": [{"const": 1}, {"const": 2}]}
    assert "".join(runner.generate("x", json_schema=schema)) in ("1", "2")
    assert runner.constraint_notes == [
        "the JSON schema's oneOf at # is treated as anyOf: an answer may match several of its parts"
    ]
    assert (runner.stats["stop_reason"], runner.stats["incomplete"]) == ("complete", False)
    long = {"type": "string", "minLength": 500}
    assert "".join(runner.generate("x", 3, json_schema=long)).startswith('"')
    assert (runner.stats["stop_reason"], runner.stats["incomplete"]) == ("length", True)
    list(runner.generate("x", 3))
    assert runner.constraint_notes == [] and runner.stats["incomplete"] is False


def test_refusals(runner: Runner) -> None:
    with pytest.raises(RunnerError, match="^regex and choice are given, but an answer can have"):
        runner.generate("x", regex="a", choice=["a"])
    with pytest.raises(RunnerError, match="^choice is the string 'yes', but must be a list"):
        runner.generate("x", choice="yes")
    with pytest.raises(RunnerError, match=r"^choice is the string 'y{96}\.\.\., but must"):
        runner.generate("x", choice=50_000 * "y")  # a document, say
    with pytest.raises(RunnerError, match="^the constraint cannot be written as JSON: "):
        runner.generate("x", json_schema={"const": float("nan")})
    with pytest.raises(RunnerError, match='the keyword "if" at #/properties/a'):
        list(runner.generate("x", json_schema={"properties": {"a": {"if": {}}}}))
    with pytest.raises(RunnerError, match="a lookbehind is not supported"):
        list(runner.generate("x", regex="(?<=a)b"))
    with pytest.raises(RunnerError, match="^schema_unsupported is 'x', but must be 'refuse' or"):
        runner.generate("x", json_schema=True, schema_unsupported="x")
    assert "".join(runner.generate("x", choice=["fine"])) == "fine"


def test_what_is_left_out_is_told(runner: Runner) -> None:
    schema = {"enum": [12], "if": {}}
    answer = runner.generate("x", json_schema=schema, schema_unsupported="relax")
    assert "".join(answer) == "12"
    (sentence,) = runner.stats["left_out"]
    assert sentence.startswith('the JSON schema has the keyword "if" at #, which is not supported')
    assert runner.constraint_notes == [sentence]
    assert "".join(runner.generate("x", json_schema={"const": 3})) == "3"
    assert runner.stats["left_out"] == []


def test_a_constraint_that_is_no_longer_wanted(runner: Runner) -> None:
    """Its compilation ends before it is done, and the engine goes on."""
    slow = {"type": "string", "pattern": "a.{12}$", "maxLength": 5000}
    with Engine(runner, sequences=1) as engine:
        for wanted in range(12):  # wherever in the compilation it ends
            left = iter([True] * wanted)
            with pytest.raises(RunnerError, match="cancelled while its constraint was compiled"):
                engine.submit(
                    "x", 3, json_schema=slow, still_wanted=lambda left=left: next(left, False)
                )
        assert engine.submit("x", choice=["yes"]).text() == "yes"


def test_a_chat(chat_pte: Path, cpp_build: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    closed = {**schema, "additionalProperties": False}
    with Runner(chat_pte, threads=1) as runner:
        chat = Chat(runner)
        jsonschema.validate(json.loads("".join(chat.say("One?", json_schema=closed))), closed)
        assert "".join(chat.say("Two?", choice=["yes"])) == "yes"
        assert chat.turns == 2
        fork = runner.fork()
        assert "".join(fork.generate("x", choice=["a"])) == "a"


def test_forced_tokens_change_nothing(runner: Runner) -> None:
    """What the cache has of forced tokens is what the model computes for them one by one."""
    schema = {
        "type": "object",
        "properties": {"first_name": {"enum": ["Ann", "Bob"]}, "last_name": {"const": "Smith"}},
        "required": ["first_name", "last_name"],
        "additionalProperties": False,
    }
    answer = "".join(runner.generate("Name: ", json_schema=schema))
    assert json.loads(answer)["last_name"] == "Smith"
    stats = runner.stats
    assert 4 < int(stats["forced_tokens"]) <= int(stats["generated_tokens"])
    tokens = [*runner.encode("Name: "), *runner.encode(answer)]
    from_cache = runner.logits(tokens, first=len(tokens) - 1)
    runner.truncate(0)
    np.testing.assert_array_equal(runner.logits(tokens, first=len(tokens) - 1), from_cache)
