"""Answers at a high temperature: every one that is complete is valid by jsonschema."""

import json
from pathlib import Path

import jsonschema
import pytest
from support.answer_schemas import SCHEMAS
from support.exported import Quiet
from support.real_models import smollm2

from exporter.options import ExportOptions
from exporter.pipeline import export_model
from runtime import Engine, Runner
from runtime.generation import Generation

SOAK_ANSWERS = 10_000


def asked(engine: Engine, number: int) -> Generation:
    schema = SCHEMAS[number % len(SCHEMAS)]
    return engine.submit("Answer: ", 400, temperature=1.5, seed=number, json_schema=schema)


def validated(generation: Generation, number: int) -> bool:
    """Whether the answer is complete; fails if it is, and is not valid."""
    answer, schema = generation.text(), SCHEMAS[number % len(SCHEMAS)]
    if generation.stats["incomplete"]:
        return False
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    one_of = json.loads(json.dumps(schema).replace('"oneOf"', '"anyOf"'))  # as constraints have it
    validator = jsonschema.Draft202012Validator(one_of, format_checker=checker)
    errors = [error.message for error in validator.iter_errors(json.loads(answer))]
    assert not errors, (number, answer, errors)
    return True


def complete_answers(runner: Runner, count: int) -> int:
    complete = 0
    with Engine(runner, sequences=16) as engine:
        for first in range(0, count, len(SCHEMAS)):
            numbers = range(first, first + len(SCHEMAS))
            work = [asked(engine, number) for number in numbers]
            complete += sum(map(validated, work, numbers))
    return complete


def test_fifty_schemas(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    assert len(SCHEMAS) == 50
    with Runner(embedded_cpu_pte, threads=1) as runner:
        assert complete_answers(runner, 200) > 180


@pytest.mark.soak
@pytest.mark.parametrize("name", ["embedded", "smollm2"])
def test_ten_thousand_answers(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, cpp_build: Path
) -> None:
    if name == "embedded":
        model: Path = request.getfixturevalue("embedded_cpu_pte")
    else:
        out = tmp_path / "model.pte"
        options = ExportOptions(model=str(smollm2(tmp_path)), out=out, delegate="cpu")
        model = export_model(options, Quiet()).out
    # Two threads cost the small model more than they compute.
    with Runner(model, threads=1 if name == "embedded" else None) as runner:
        assert complete_answers(runner, SOAK_ANSWERS) > 0.9 * SOAK_ANSWERS
