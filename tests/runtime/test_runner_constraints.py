"""Constrained answers of the runner: every complete one is valid, whatever is sampled."""

import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


def run(build: Path, model: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [build / "runner", model, "--threads", "1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8")


def generate(build: Path, model: Path, *arguments: str) -> str:
    result = run(build, model, *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("model", ["embedded_cpu_pte", "stories_pte"])
def test_a_schema(cpp_build: Path, model: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(model)
    schema = json.dumps(PERSON)
    sampled = ["--temperature", "1.5", "--seed"]
    for options in [[], [*sampled, "1"], [*sampled, "2"], [*sampled, "3"]]:
        prompt = "" if "3" in options else "A person: "
        answer = generate(cpp_build, path, "-p", prompt, "--json-schema", schema, *options)
        jsonschema.validate(json.loads(answer), PERSON)


def test_the_other_constraints(cpp_build: Path, embedded_cpu_pte: Path, tmp_path: Path) -> None:
    def answer(*options: str) -> str:
        sampled = ["--temperature", "1.5", "--seed", "7", "-n", "400"]
        return generate(cpp_build, embedded_cpu_pte, "-p", "It is: ", *sampled, *options)

    assert re.fullmatch(r"[A-F]{3}-\d{4}", answer("--regex", r"[A-F]{3}-\d{4}"))
    assert answer("--choice", "yes", "--choice", "not sure") in ("yes", "not sure")
    schema, grammar = tmp_path / "schema.json", tmp_path / "list.gbnf"
    array = '{"type": "array", "items": {"type": "boolean"}, "maxItems": 5}'
    schema.write_text(array, encoding="utf-8-sig")
    assert isinstance(json.loads(answer("--json-schema-file", str(schema))), list)
    grammar.write_text('root ::= ("- " [a-z]{1,9} "\\n"){2}')
    assert re.fullmatch(r"(- [a-z]{1,9}\n){2}", answer("--grammar-file", str(grammar)))
    assert answer("--grammar", 'root ::= "exactly this"') == "exactly this"
    assert answer("--json-object", "-n", "5").startswith("{")


def test_why_it_ends(cpp_build: Path, embedded_cpu_pte: Path, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    schema = ["-p", "A: ", "--json-schema", json.dumps(PERSON), "--json", str(stats)]
    result = run(cpp_build, embedded_cpu_pte, *schema)
    told = json.loads(stats.read_text())
    assert (told["stop_reason"], told["incomplete"]) == ("complete", False)
    assert told["forced_tokens"] > 0
    result = run(cpp_build, embedded_cpu_pte, *schema, "-n", "5")
    told = json.loads(stats.read_text())
    assert (told["stop_reason"], told["incomplete"]) == ("length", True)
    assert result.returncode == 3
    sentence = (
        "runner: the answer is not complete: the 5 tokens of -n end it, and its constraint goes "
        "on behind them\n"
    )
    assert sentence in result.stderr
    free = ["-p", "A: ", "--regex", "[a-z ]*", "--json", str(stats), "-n", "5"]
    result = run(cpp_build, embedded_cpu_pte, *free)
    assert result.returncode == 0 and sentence not in result.stderr
    assert json.loads(stats.read_text())["incomplete"] is False


def test_forced_tokens_are_in_the_cache(
    cpp_build: Path, embedded_cpu_pte: Path, tmp_path: Path
) -> None:
    """A session after a constrained answer goes on exactly as a new run on the same text does."""
    session = ["--session", str(tmp_path / "a.session")]
    options = ["--json-schema", json.dumps(PERSON)]
    first = generate(cpp_build, embedded_cpu_pte, "-p", "A: ", *options, *session)
    prompt = ["-p", f"A: {first} and", "-n", "20"]
    again = generate(cpp_build, embedded_cpu_pte, *prompt, *session)
    assert again == generate(cpp_build, embedded_cpu_pte, *prompt)


def test_chat(cpp_build: Path, chat_pte: Path) -> None:
    options = ["--chat", "--json-schema", json.dumps(PERSON), "--threads", "1"]
    result = subprocess.run(
        [cpp_build / "runner", chat_pte, *options],
        input="Who?\nAnd who else?\n",
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    for answer in (first, second):
        jsonschema.validate(json.loads(answer), PERSON)


def test_notes_and_refusals(cpp_build: Path, embedded_cpu_pte: Path, tmp_path: Path) -> None:
    one_of = ["-p", "x", "--json-schema", '{"oneOf": [{"const": 1}, {"const": 2}]}']
    assert (
        "runner: the JSON schema's oneOf at # is treated as anyOf: an answer may match several of "
        "its parts\n" in run(cpp_build, embedded_cpu_pte, *one_of).stderr
    )
    missing = tmp_path / "none.gbnf"
    refusals = [
        (["--regex", "(?<=a)"], "the regular expression '(?<=a)' is refused at offset 0: a "
         "lookbehind is not supported"),
        (["--json-object", "--regex", "a"], "--regex is a second constraint: an answer "
         "can have one"),
        (["--grammar-file", str(missing)], f"--grammar-file: cannot read {missing}: No such "
         "file or directory"),
        (["--json-schema-file", str(tmp_path)], f"--json-schema-file: cannot read {tmp_path}: Is "
         "a directory"),
        (["--grammar-file", "/dev/zero"], "--grammar-file: /dev/zero has more than 16 MiB"),
        (["--choice", "\udcff"], "--choice is not UTF-8, at byte 1: convert the text, "
         "as with iconv"),
    ]  # fmt: skip
    for options, sentence in refusals:
        result = run(cpp_build, embedded_cpu_pte, "-p", "x", *options)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == f"runner: {sentence}\n"
