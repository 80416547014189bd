"""Sampling as a model's authors set it: in the file, in its runners, and what overrides it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.sampled_files import GIVEN, STORED, export_sampled
from transformers import LlamaConfig, LlamaForCausalLM

from exporter.checkpoint.sampling import (
    ends_note,
    not_applied,
    read_sampling,
    sampling_note,
)
from exporter.errors import ExportError
from exporter.file.pte import read_report
from runtime import Chat, Engine, Runner

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {"temperature": 1.0, "top_k": 50}  # how transformers samples where nothing else is said
TOLD = "sampling as the model's authors set it: "


@pytest.fixture(scope="module")
def sampled_pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_sampled(shared_data / "stories260K", tmp_path_factory.mktemp("sampled"))


def run(command: list[Any]) -> tuple[str, str]:
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout, result.stderr


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({**GIVEN, "repetition_penalty": 1.1}, STORED),
        ({"do_sample": True}, PLAIN),
        ({"do_sample": 1, "top_k": None}, PLAIN),
        ({"do_sample": True, "top_k": 0}, {"temperature": 1.0}),
        ({"do_sample": True, "temperature": None, "top_p": 1.0}, PLAIN),
        ({"do_sample": False, "temperature": 0.7}, {}),
        ({"temperature": 0.7}, {}),
        ({"do_sample": True, "typical_p": 0.9}, {**PLAIN, "typical_p": 0.9}),
        (None, {}),
    ],
)
def test_what_is_read(
    tmp_path: Path, fields: dict[str, Any] | None, expected: dict[str, float]
) -> None:
    if fields is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(fields))
    assert read_sampling(tmp_path) == expected


def test_a_checkpoint_of_old_says_it_in_its_config(tmp_path: Path) -> None:
    """Unless it has a generation_config.json, and be that empty, transformers takes it there."""
    inner = {"do_sample": True, "temperature": 0.5, "top_p": 0.9}
    config = {"top_p": 0.8, "temperature": None, "text_config": inner, "no_repeat_ngram_size": 3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_sampling(tmp_path) == {"temperature": 0.5, "top_k": 50, "top_p": 0.8}
    assert not_applied(tmp_path) == ("config.json", ["no_repeat_ngram_size"])
    (tmp_path / "generation_config.json").write_text("{}")
    assert read_sampling(tmp_path) == {}
    assert not_applied(tmp_path) == ("generation_config.json", [])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"num_beams": 1, "no_repeat_ngram_size": 0, "suppress_tokens": None, "top_h": 0.4}, []),
        ({"num_beams": 4, "no_repeat_ngram_size": 3}, ["no_repeat_ngram_size", "num_beams"]),
        ({"repetition_penalty": 1.1}, ["repetition_penalty"]),
        ({"do_sample": True, "repetition_penalty": 1.1, "top_h": 0.4}, ["top_h"]),
        ({"suppress_tokens": [5], "forced_eos_token_id": 2}, None),
        ({"encoder_repetition_penalty": 1.0, "encoder_no_repeat_ngram_size": 0}, []),
        ({"encoder_repetition_penalty": 1.2, "encoder_no_repeat_ngram_size": 2}, None),
        ({"watermarking_config": {"bias": 2.0}, "token_healing": True}, None),
    ],
)
def test_what_is_not_applied(
    tmp_path: Path, fields: dict[str, Any], expected: list[str] | None
) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps(fields))
    assert not_applied(tmp_path)[1] == (list(fields) if expected is None else expected)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"do_sample": True, "temperature": 0.0, "top_k": 0}, "choose the most likely token."),
        ({"do_sample": True, "temperature": 0.6}, "as its authors do: temperature 0.6, top_k 50."),
        ({"temperature": 0.0}, None),
    ],
)
def test_what_is_said(tmp_path: Path, fields: dict[str, Any], said: str | None) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps(fields))
    note = sampling_note(tmp_path)
    assert note is None if said is None else note is not None and note.endswith(said)


@pytest.mark.parametrize("config", [{}, {"eos_token_id": 2}, {"eos_token_id": [2, 5]}], ids=str)
@pytest.mark.parametrize("generation", [None, {}, {"eos_token_id": [5]}, {"eos_token_id": 2}])
def test_ends_that_transformers_does_not_know_are_told(
    tmp_path: Path, config: dict[str, Any], generation: dict[str, Any] | None
) -> None:
    sizes = dict.fromkeys(("hidden_size", "intermediate_size", "vocab_size"), 8)
    heads = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    LlamaForCausalLM(LlamaConfig(**sizes, **heads)).save_pretrained(tmp_path)
    fields = {"model_type": "llama", **sizes, **heads, **config}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    if generation is None:
        (tmp_path / "generation_config.json").unlink()
    else:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    known = LlamaForCausalLM.from_pretrained(tmp_path).generation_config.eos_token_id
    more = {2, 5, 7} - set(known if isinstance(known, list) else [known])
    note = ends_note(tmp_path, (2, 5, 7)) or ""
    assert set(map(int, re.findall(r"\b\d\b", note))) == more != set()
    assert ends_note(tmp_path, [known] if isinstance(known, int) else known or ()) is None


@pytest.mark.parametrize(
    ("name", "value", "range"),
    [("top_p", 1.5, "0 to 1"), ("temperature", "hot", "0 to 100"), ("min_p", True, "0 to 1")],
)
def test_what_is_refused(tmp_path: Path, name: str, value: Any, range: str) -> None:
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({"do_sample": True, name: value}))
    with pytest.raises(ExportError) as error:
        read_sampling(tmp_path)
    assert str(error.value) == (
        f"{path}: {name} is {value!r}, but must be a number from {range}; correct it, or set "
        "do_sample to false."
    )


@pytest.mark.check
def test_the_file_has_it_and_the_runner_uses_it(cpp_build: Path, sampled_pte: Path) -> None:
    assert read_report(sampled_pte)["model"]["sampling"] == STORED
    runner = [cpp_build / "runner", sampled_pte, "-p", "Once", "-n", 24, "--seed", 5]
    by_file, told = run(runner)
    shown = "temperature 1.5, top_k 20, top_p 0.8, repetition_penalty 1.1"
    assert f"runner: {TOLD}{shown}\n" in told
    options = [part for name, value in STORED.items() for part in _option(name, value)]
    assert run([*runner, *options, "--quiet"]) == (by_file, "")
    neutral = ["--temperature", 0, "--repetition-penalty", 1]
    greedy, told = run([*runner, *neutral])
    assert greedy != by_file and f"{TOLD}top_k 20, top_p 0.8\n" in told
    module = [sys.executable, "-m", "runtime", "generate", *runner[1:]]
    assert run(module)[0] == by_file + "\n"
    with Runner(sampled_pte) as model:
        assert model.sampling == STORED
        assert "".join(model.generate("Once", 24, seed=5)) == by_file
        assert "".join(model.generate("Once", 24, temperature=0, repetition_penalty=1)) == greedy
        fork = model.fork()
        said = "".join(Chat(model).say("Hi", 12, seed=5))
        assert fork.sampling == STORED
        assert "".join(Chat(fork).say("Hi", 12, seed=5, **STORED)) == said
        fork.close()
        with Engine(model) as engine:
            assert "".join(engine.submit("Once", 24, seed=5)) == by_file


def _option(name: str, value: float) -> list[str]:
    return ["--" + name.replace("_", "-"), str(value)]


def test_a_file_without_it_is_greedy(cpp_build: Path, stories_pte: Path) -> None:
    with Runner(stories_pte) as model:
        assert model.sampling == {}
    assert TOLD not in run([cpp_build / "runner", stories_pte, "-p", "Once", "-n", 4])[1]
