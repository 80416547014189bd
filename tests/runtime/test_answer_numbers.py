"""Every place that has an answer's numbers, held to the library's table of them."""

import ctypes
import json
import re
import subprocess
import typing
from pathlib import Path
from typing import Any

import click
import pytest

from runtime import AnswerOptions, Runner
from runtime.answer_options import NUMBERS, AnswerNumber
from runtime.binding.library import ERROR_SIZE, Options, TextCallback, library
from runtime.commands.generate import generate
from runtime.server.requests import FIELD_NUMBERS, ChatRequest

RUNTIME = Path(__file__).resolve().parents[2] / "runtime"
JAVA = RUNTIME / "android/thimble/src/main/java/dev/thimble/AnswerOptions.java"
SWIFT = RUNTIME / "apple/Sources/Thimble/AnswerOptions.swift"
TYPESCRIPT = RUNTIME / "web/index.d.ts"
TYPES = {float: "number", int: "integer", bool: "boolean"}
COUNT = 2**31 - 1


@pytest.fixture
def table(cpp_build: Path) -> dict[str, dict[str, Any]]:
    rows = json.loads(library().thimble_answer_numbers())
    needs = {row["name"]: row.pop("needs") for row in rows}
    assert {needs[name] for name in ("top_k", "min_p", "mirostat")} == {"temperature"}
    assert needs["xtc_threshold"] == "xtc_probability" and needs["dry_base"] == "dry_multiplier"
    assert {needs[name] for name in ("temperature", "dynatemp_range", "logprobs")} == {None}
    assert all(needed is None or needed in needs for needed in needs.values())
    return {row.pop("name"): row for row in rows}


def camel(name: str) -> str:
    return re.sub(r"_(.)", lambda found: found[1].upper(), name)


def shown(number: float) -> str:
    return f"{number:g}"


def says(text: str, row: dict[str, Any]) -> bool:
    """Whether a text tells the range of a number that is no count."""
    words = " ".join(re.sub(r"[*/]+", " ", text).split())
    tells = f"{shown(row['low'])} to {shown(row['high'])}" in words
    return tells or row["type"] == "boolean" or row["high"] == COUNT


def says_default(text: str, row: dict[str, Any]) -> bool:
    """The default too, if there is one: absent log-probabilities are not asked for."""
    number = shown(row["default"])
    told = re.search(rf"\b{number}, the default|[Dd]efault:? {number}\b", text)
    return told is not None or row["type"] == "boolean" or row["high"] == 20


def python_table(number: AnswerNumber) -> dict[str, Any]:
    low = 0 if number.name == "max_new_tokens" else number.low  # 0 is None there
    default = float(number.default or 0)
    kind = TYPES[number.type]
    return {"type": kind, "low": low, "high": number.high, "default": default}


def test_every_place_has_the_librarys_numbers(table: dict[str, Any], cpp_build: Path) -> None:
    assert {number.name: python_table(number) for number in NUMBERS} == table
    assert [number.name for number in NUMBERS] == list(table)

    command = [cpp_build / "runner", "--help"]
    usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    java, swift, typescript = (path.read_text() for path in (JAVA, SWIFT, TYPESCRIPT))
    readme = (RUNTIME / "README.md").read_text()
    about_python = AnswerOptions.__doc__ or ""
    annotations = typing.get_type_hints(AnswerOptions)
    for number in NUMBERS:
        name, row = number.name, table[number.name]
        option = "--tokens" if name == "max_new_tokens" else "--" + name.replace("_", "-")
        lines = re.search(rf"^  (?:.*, )?{option}\b(?:.|\n   )*", usage, re.MULTILINE)
        assert lines and says(lines[0], row), name

        if name != "max_new_tokens":  # an argument of its own
            about = re.search(rf"^ +{name}: (.*(?:\n {{9,}}.*)*)", about_python, re.MULTILINE)
            assert about and says(about[1], row), name
            assert annotations[name] in (number.type, number.type | None), name
        assert f"`{name}" in readme and f"`{option}" in readme, name

        types = {"number": "double", "integer": "(?:int|long)", "boolean": "boolean"}[row["type"]]
        method = re.search(
            rf"/\*\*([^/]*)\*/\n  public AnswerOptions {camel(name)}\({types} \w+\) {{\n"
            r"((?:    .*\n)*)",
            java,
        )
        assert method and says(method[1], row) and says_default(method[1], row), name
        assert f'number("{name}", ' in method[2] or name == "logprobs", name

        kind = "Int" if row["type"] == "integer" else "(?:Double|Float)"
        value = " = false" if row["type"] == "boolean" else rf": {kind}\?"
        field = re.search(rf"((?: +///.*\n)+)    public var {camel(name)}{value}\n", swift)
        assert field and says(field[1], row) and says_default(field[1], row), name
        assert f'all["{name}"] = {camel(name)}' in swift or name == "logprobs"

        kind = "boolean" if row["type"] == "boolean" else "number"
        field = re.search(rf"/\*\*([^/]*)\*/\n  {camel(name)}\?: {kind};", typescript)
        assert field and says(field[1], row), name
        assert name == "max_new_tokens" or says_default(field[1], row), name


def test_commands_and_requests_have_them(table: dict[str, Any]) -> None:
    parameters = {parameter.name: parameter for parameter in generate.params}
    for number in NUMBERS:
        name, row = number.name, table[number.name]
        parameter = parameters.get("tokens" if name == "max_new_tokens" else name)
        assert parameter is not None or name == "logprobs", name
        if isinstance(parameter, click.Option) and not parameter.is_flag:
            bounds: Any = parameter.type
            assert isinstance(bounds, click.IntRange) == (row["type"] == "integer"), name
            assert (bounds.min, bounds.max or COUNT) == (number.low, row["high"]), name
            told = f"Default: the file's, else {number.default or 0:g}."
            assert name == "max_new_tokens" or str(parameter.help).endswith(told), name
    fields = ChatRequest.model_json_schema()["properties"]
    for number in FIELD_NUMBERS:
        field = fields[number.name]
        high = 2 if number.name == "temperature" else number.high  # OpenAI's bound
        low = -1 if number.name == "top_k" else number.low  # as vLLM's
        value = {"type": TYPES[number.type], "minimum": low, "maximum": high}
        assert field["anyOf"] == [value, {"type": "null"}], number.name
        assert field["default"] is None, number.name


def test_the_library_checks_them(table: dict[str, Any]) -> None:
    lib, error = library(), ctypes.create_string_buffer(ERROR_SIZE)
    settings = lib.thimble_settings_new()

    def set_number(name: str, value: float) -> str:
        failed = lib.thimble_settings_number(settings, name.encode(), value, error, ERROR_SIZE)
        return error.value.decode() if failed else ""

    for name, row in table.items():
        low, high = row["low"], row["high"]
        bounds = f"from {int(low) if low == int(low) else low} to {int(high)}"
        for value in (low, high, row["default"]):
            assert set_number(name, value) == ""
        assert set_number(name, high + 1) == f"{name} is {int(high) + 1}, but must be {bounds}"
        assert set_number(name, low - 1).endswith(bounds)
        assert set_number(name, float("nan")).endswith(f" is nan, but must be {bounds}")
        part = set_number(name, low + 0.5)
        whole = f"{name} is {low + 0.5:g}, but must be a whole number {bounds}"
        assert part == ("" if row["type"] == "number" else whole)
    lib.thimble_settings_free(settings)


@pytest.mark.check
def test_a_number_of_the_settings_wins(cpp_build: Path, stories_pte: Path) -> None:
    lib, error = library(), ctypes.create_string_buffer(ERROR_SIZE)
    take = TextCallback(lambda *_: 1)
    with Runner(stories_pte, threads=1) as runner:

        def count(most: int | None) -> Any:
            settings = lib.thimble_settings_new()
            if most is not None:
                lib.thimble_settings_number(settings, b"max_new_tokens", most, error, ERROR_SIZE)
            lib.thimble_use_settings(runner._handle, settings)
            lib.thimble_settings_free(settings)
            options = Options(max_new_tokens=3, top_p=1.0)
            arguments = (b"Once", 4, ctypes.byref(options), take, None, error, ERROR_SIZE)
            assert lib.thimble_generate(runner._handle, *arguments) == 0
            return runner.stats["generated_tokens"]

        assert [count(most) for most in (None, 5, None)] == [3, 5, 3]
