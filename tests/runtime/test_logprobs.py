"""Log-probabilities of an answer's tokens against Runner.logits()."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime import AnswerOptions, Engine, Runner, TokenLogprob

BOS = "<|begin_of_text|>"
PROMPT = "import os\nimport"
ANSWERS: dict[str, AnswerOptions] = {
    "greedy": {},
    "changed": {
        "temperature": 1.3,
        "top_k": 9,
        "seed": 2,
        "logit_bias": {13: -5},
        "presence_penalty": 1.0,
    },
    "constrained": {"json_schema": {"properties": {"first_name": {"enum": ["Al", "Bo"]}}}},
}


@pytest.fixture
def runner(embedded_cpu_pte: Path, cpp_build: Path) -> Iterator[Runner]:
    with Runner(embedded_cpu_pte, threads=1) as runner:
        yield runner


@pytest.mark.parametrize("top", [0, 1, 20])
@pytest.mark.parametrize("name", ANSWERS)
def test_the_models_own_distribution(runner: Runner, name: str, top: int) -> None:
    """Neither bias nor temperature nor a constraint is part of it."""
    text = "".join(runner.generate(PROMPT, 25, logprobs=top, **ANSWERS[name]))
    found = runner.logprobs
    assert b"".join(entry.data for entry in found) == text.encode()
    assert len(found) + (runner.stats["stop_reason"] == "eos") == runner.stats["generated_tokens"]
    prompt = runner.encode_pieces([(BOS, True), (PROMPT, False)])
    tokens = [*prompt, *(entry.token for entry in found)]
    logits = runner.logits(tokens, first=len(prompt) - 1)[:-1].astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    for row, entry in zip(expected, found, strict=True):
        assert entry.logprob == pytest.approx(row[entry.token], abs=1e-9)
        likeliest = np.argsort(-row, kind="stable")[:top]
        assert [token for token, _, _ in entry.top] == likeliest.tolist()
        for token, data, logprob in entry.top:
            assert logprob == pytest.approx(row[token], abs=1e-9)
            if token == entry.token:
                assert data == entry.data


@pytest.mark.parametrize("name", ANSWERS)
def test_asking_changes_nothing(embedded_cpu_pte: Path, runner: Runner, name: str) -> None:
    """Forced tokens are then read one by one, and chosen as before."""
    plain = "".join(runner.generate(PROMPT, 60, **ANSWERS[name]))
    stats = runner.stats
    assert runner.logprobs == []
    expected = None
    for draft in (None, "ngram", embedded_cpu_pte):
        asked = Runner(embedded_cpu_pte, draft=draft)
        assert "".join(asked.generate(PROMPT, 60, logprobs=3, **ANSWERS[name])) == plain
        for count in ("generated_tokens", "forced_tokens", "stop_reason"):
            assert asked.stats[count] == stats[count]
        expected = expected or asked.logprobs
        assert asked.logprobs == expected
    assert (stats["forced_tokens"] > 0) == (name == "constrained")
    with Engine(runner, sequences=2) as engine:
        work = [engine.submit(PROMPT, 60, logprobs=3, **ANSWERS[name]) for _ in range(2)]
        for one in work:
            assert (one.text(), one.logprobs) == (plain, expected)


def test_tokens_come_before_their_text(runner: Runner) -> None:
    def check(pieces: Iterator[str], logprobs: list[TokenLogprob]) -> None:
        text = ""
        for piece in pieces:
            text += piece
            assert b"".join(entry.data for entry in logprobs).startswith(text.encode())
        assert b"".join(entry.data for entry in logprobs) == text.encode()

    pieces = runner.generate(PROMPT, 30, logprobs=0)
    first = next(pieces)

    def rest() -> Iterator[str]:
        yield first
        yield from pieces

    check(rest(), runner.logprobs)
    with Engine(runner) as engine:
        generation = engine.submit(PROMPT, 30, logprobs=0)
        check(iter(generation), generation.logprobs)


def test_the_tokens_of_a_stop_text_are_left_out(runner: Runner) -> None:
    text = "".join(runner.generate(PROMPT, 30, logprobs=0))
    entries = runner.logprobs
    for at in range(1, len(text) - 4, 5):
        passed = "".join(runner.generate(PROMPT, 30, logprobs=0, stop=text[at : at + 4]))
        shown = b"".join(entry.data for entry in runner.logprobs)
        count = len(runner.logprobs)
        assert runner.logprobs == entries[:count]
        assert shown.startswith(passed.encode())
        # The last one shows something of what was passed on.
        assert len(shown) - len(entries[count - 1].data if count else b"") <= len(passed)


def test_the_bytes_of_parts_of_characters(runner: Runner) -> None:
    assert "".join(runner.generate(PROMPT, logprobs=0, choice=["aé😀"])) == "aé😀"
    assert b"".join(entry.data for entry in runner.logprobs) == "aé😀".encode()
    assert any(len(entry.data) < 2 and entry.data > b"\x7f" for entry in runner.logprobs)


@pytest.mark.parametrize("name", ["greedy", "constrained"])
def test_the_program_writes_what_python_has(
    runner: Runner, embedded_cpu_pte: Path, cpp_build: Path, tmp_path: Path, name: str
) -> None:
    text = "".join(runner.generate(PROMPT, 25, logprobs=3, **ANSWERS[name]))
    options = ["-p", PROMPT, "-n", "25", "--threads", "1", "--logprobs", "3"]
    if "json_schema" in ANSWERS[name]:
        options += ["--json-schema", json.dumps(ANSWERS[name]["json_schema"])]
    program = [str(cpp_build / "runner"), str(embedded_cpu_pte), *options]
    told = tmp_path / "told.json"
    result = subprocess.run([*program, "--json", str(told)], capture_output=True, check=True)
    assert result.stdout == text.encode()
    stats = json.loads(told.read_text("utf-8"))
    assert stats["generated_tokens"] == runner.stats["generated_tokens"]
    assert len(stats["logprobs"]) == len(runner.logprobs)
    for entry, expected in zip(stats["logprobs"], runner.logprobs, strict=True):
        found = [entry, *entry["top"]]
        wanted = [(expected.token, expected.data, expected.logprob), *expected.top]
        assert [(e["id"], bytes(e["bytes"])) for e in found] == [(i, d) for i, d, _ in wanted]
        assert [e["logprob"] for e in found] == pytest.approx([p for _, _, p in wanted])
        assert [e["text"] for e in found] == [d.decode("utf-8", "replace") for _, d, _ in wanted]


def test_the_program_needs_a_file_to_write_them(cpp_build: Path) -> None:
    command = [str(cpp_build / "runner"), "m.pte", "-p", "x", "--logprobs", "1"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2 and "--logprobs has no effect without --json" in result.stderr
