"""Answers at a high temperature: every one that is complete is valid by jsonschema."""

import json
from pathlib import Path

import jsonschema
import pytest
from support.answer_schemas import SCHEMAS, Schema
from support.exported import Quiet
from support.real_models import smollm2

from exporter.options import ExportOptions
from exporter.pipeline import export_model
from runtime import Runner

SOAK_ANSWERS = 10_000


def validated(runner: Runner, schema: Schema, seed: int) -> bool:
    """Whether the answer is complete; fails if it is, and is not valid."""
    answer = "".join(
        runner.generate("Answer: ", 400, temperature=1.5, seed=seed, json_schema=schema)
    )
    if runner.stats["incomplete"]:
        return False
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    one_of = json.loads(json.dumps(schema).replace('"oneOf"', '"anyOf"'))  # as constraints have it
    validator = jsonschema.Draft202012Validator(one_of, format_checker=checker)
    errors = [error.message for error in validator.iter_errors(json.loads(answer))]
    assert not errors, (schema, seed, answer, errors)
    return True


def test_fifty_schemas(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    assert len(SCHEMAS) == 50
    with Runner(embedded_cpu_pte, threads=1) as runner:
        complete = [validated(runner, schema, seed) for schema in SCHEMAS for seed in range(4)]
    assert sum(complete) > 0.9 * len(complete)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("embedded", marks=pytest.mark.check),
        pytest.param("smollm2", marks=pytest.mark.soak),
    ],
)
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
        complete = sum(
            validated(runner, SCHEMAS[number % len(SCHEMAS)], number)
            for number in range(SOAK_ANSWERS)
        )
    assert complete > 0.9 * SOAK_ANSWERS
