"""Bias and penalties against their definitions in numpy, on the model's own logits; and the same
text alone, in an Engine and with drafts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tiers import checked

from runtime import AnswerOptions, Engine, Runner, RunnerError, TokenLogprob
from runtime.binding.library import library
from runtime.binding.logprobs import collector
from runtime.binding.settings import Settings

BOS = "<|begin_of_text|>"
PROMPT = "def add(first, second):\n    return first"
CHANGES: dict[str, AnswerOptions] = {
    "repetition": {"repetition_penalty": 1.4},
    "reward": {"repetition_penalty": 0.8},
    "presence": {"presence_penalty": 1.7},
    "frequency": {"frequency_penalty": 0.6},
    "negative": {"presence_penalty": -0.5, "frequency_penalty": -2.0},
    "bias": {"logit_bias": {10: 3.5, 40: -100, 41: 2}},
    "all": {
        "repetition_penalty": 1.2,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "logit_bias": {12: 4.0, 300: -7.5},
    },
    "dry": {"dry_multiplier": 3.0, "dry_base": 1.5, "dry_allowed_length": 1},
    "dry near": {"dry_multiplier": 3.0, "dry_allowed_length": 0, "dry_penalty_last_n": 5},
}
SAMPLERS: dict[str, AnswerOptions] = {
    "plain": {},
    "typical": {"typical_p": 0.5},
    "XTC": {"xtc_probability": 0.7, "xtc_threshold": 0.05},
    "dynamic temperature": {"dynatemp_range": 0.8, "dynatemp_exponent": 0.7},
    "Mirostat": {"mirostat": 1, "mirostat_tau": 2.0},
    "Mirostat 2": {"mirostat": 2, "mirostat_tau": 2.0, "mirostat_eta": 0.2},
}


@pytest.fixture
def runner(embedded_cpu_pte: Path, cpp_build: Path) -> Iterator[Runner]:
    with Runner(embedded_cpu_pte, threads=1) as runner:
        yield runner


def changed(
    runner: Runner,
    logits: np.ndarray,
    prompt: list[int],
    answer: list[int],
    options: AnswerOptions,
) -> np.ndarray:
    logits = logits.copy()
    for token, value in (options.get("logit_bias") or {}).items():
        logits[token] += np.float32(value)
    penalty = np.float32(options.get("repetition_penalty", 1.0))
    for token in {*prompt, *answer}:
        logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
    for token in set(answer):
        logits[token] -= np.float32(options.get("presence_penalty", 0.0)) + np.float32(
            options.get("frequency_penalty", 0.0)
        ) * answer.count(token)
    for token, length in repetitions(runner, [*prompt, *answer], options).items():
        power = length - options.get("dry_allowed_length", 2)
        base = options.get("dry_base", 1.75)
        logits[token] -= np.float32(options["dry_multiplier"] * base**power)
    return logits


def repetitions(runner: Runner, text: list[int], options: AnswerOptions) -> dict[int, int]:
    """How many of the last tokens came before each token that may be punished, at most."""
    found = dict[int, int]()
    allowed = options.get("dry_allowed_length", 2)
    text = text[-options.get("dry_penalty_last_n", 64) :] if "dry_multiplier" in options else []
    breakers = {token for token in text if set(runner.token_text(token)) & set(b'\n:"*')}
    for end in range(1, len(text)):
        length = 0
        while length < end and text[end - 1 - length] == text[-1 - length] not in breakers:
            length += 1
        if length >= allowed and text[end] not in breakers:
            found[text[end]] = max(length, found.get(text[end], 0))
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_the_definitions(runner: Runner, name: str) -> None:
    options = CHANGES[name]
    list(runner.generate(PROMPT, 30, logprobs=0, **options))
    found = [entry.token for entry in runner.logprobs]
    prompt, answer = runner.encode_pieces([(BOS, True), (PROMPT, False)]), list[int]()
    rows = runner.logits([*prompt, *found], first=len(prompt) - 1)
    differs = False
    for row in rows[:-1]:
        answer.append(int(changed(runner, row, prompt, answer, options).argmax()))
        differs = differs or answer[-1] != row.argmax()
    assert answer == found and len(found) == 30
    assert differs  # the option was of consequence


@pytest.mark.parametrize(
    "options",
    [
        *({**changes, "temperature": 0.9} for changes in (CHANGES | SAMPLERS).values()),
        *checked({**changes, "temperature": 0} for changes in CHANGES.values()),
    ],
    ids=str,
)
def test_drafts_and_an_engine_change_nothing(
    embedded_cpu_pte: Path, runner: Runner, options: AnswerOptions
) -> None:
    options = {**options, "seed": 6, "logprobs": 2}

    def told(runner: Runner) -> tuple[str, list[TokenLogprob]]:
        return "".join(runner.generate(PROMPT, 40, **options)), runner.logprobs

    expected = told(runner)
    for draft in ("ngram", embedded_cpu_pte):
        assert told(Runner(embedded_cpu_pte, draft=draft)) == expected
    with Engine(runner, sequences=2) as engine:
        others = [engine.submit(PROMPT, 12, temperature=1.0) for _ in range(2)]
        generation = engine.submit(PROMPT, 40, **options)
        assert (generation.text(), generation.logprobs) == expected
        for other in others:
            other.text()


def test_a_model_that_is_its_own_draft_stays_right(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    runner = Runner(embedded_cpu_pte, draft=embedded_cpu_pte)
    list(runner.generate(PROMPT, 40, **CHANGES["all"]))
    stats = runner.stats
    assert stats["drafted_tokens"] - 7 <= stats["accepted_tokens"]
    assert stats["drafted_tokens"] > 0


def test_every_sampler_chooses_otherwise(runner: Runner) -> None:
    texts = {
        "".join(runner.generate(PROMPT, 40, **sampler, temperature=0.9, seed=6))
        for sampler in SAMPLERS.values()
    }
    assert len(texts) == len(SAMPLERS)


def test_a_ban_and_a_wish(runner: Runner) -> None:
    list(runner.generate(PROMPT, 20, logprobs=0))
    usual = {entry.token for entry in runner.logprobs}
    list(runner.generate(PROMPT, 20, logprobs=0, logit_bias=dict.fromkeys(usual, -100)))
    assert not usual & {entry.token for entry in runner.logprobs}
    list(runner.generate(PROMPT, 5, logprobs=0, logit_bias={77: 100}))
    assert [entry.token for entry in runner.logprobs] == [77] * 5


def test_the_constraint_stays(runner: Runner) -> None:
    yes = runner.encode("yes")[0]
    text = "".join(runner.generate("x", choice=["yes", "no"], logit_bias={yes: -100}))
    assert text == "no"
    assert "".join(runner.generate("x", choice=["yes"], logit_bias={yes: -100})) == "yes"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"repetition_penalty": 0}, "repetition_penalty is 0, but must be from 0.01 to 100"),
        ({"presence_penalty": 2.5}, "presence_penalty is 2.5, but must be from -2 to 2"),
        ({"frequency_penalty": -3}, "frequency_penalty is -3, but must be from -2 to 2"),
        ({"logit_bias": {5: 101}}, "logit_bias of token 5 is 101, but must be from -100 to 100"),
        (
            {"logit_bias": {-1: 0}},
            "a token of logit_bias is -1, but must be from 0 to 2147483647",
        ),
        ({"stop": ["a", ""]}, "a text of stop is empty: give at least one character"),
        ({"logprobs": 21}, "logprobs is 21, but must be from 0 to 20"),
        ({"temperature": "1"}, "temperature is '1', but must be a number from 0 to 100"),
        ({"top_k": 1.5}, "top_k is 1.5, but must be a whole number from 0 to 2147483647"),
        ({"logit_bias": [1]}, "logit_bias is [1], but must map tokens to numbers"),
        (
            {"logit_bias": {"1": 1}},
            "a token of logit_bias is '1', but must be a whole number from 0 to 2147483647",
        ),
        ({"stop": 5}, "a text of stop is 5, but must be a string"),
        ({"regex": 5}, "regex is 5, but must be a string"),
    ],
)
def test_out_of_range(runner: Runner, options: AnswerOptions, sentence: str) -> None:
    with pytest.raises(RunnerError) as caught:
        runner.generate("x", **options)
    assert str(caught.value) == sentence


def test_none_is_the_default(runner: Runner) -> None:
    unset: Any = dict.fromkeys(AnswerOptions.__annotations__)
    usual = "".join(runner.generate(PROMPT, 8))
    assert "".join(runner.generate(PROMPT, 8, **unset)) == usual


def test_texts_that_are_none(runner: Runner) -> None:
    wrong: Any = b"x"
    for use in (lambda: list(runner.generate(wrong)), lambda: runner.encode(wrong)):
        with pytest.raises(RunnerError, match="is b'x', but must be a string"):
            use()
    with Engine(runner) as engine, pytest.raises(RunnerError, match="must be a list of whole"):
        engine.submit(wrong)


def test_unknown_names(runner: Runner) -> None:
    with pytest.raises(RunnerError, match="^tempera is not an option of an answer: it must be one"):
        runner.generate("x", tempera=1)  # type: ignore[call-arg]
    with Engine(runner) as engine, pytest.raises(RunnerError, match="^n is not an option"):
        engine.submit("x", n=2)  # type: ignore[call-arg]


def test_a_bias_outside_the_vocabulary(runner: Runner) -> None:
    sentence = "^logit_bias has the token 70000, but the model's vocabulary ends at "
    with pytest.raises(RunnerError, match=sentence):
        list(runner.generate("x", logit_bias={70000: 1}))
    assert list(runner.generate("x", 2))
    with Engine(runner) as engine, pytest.raises(RunnerError, match=sentence):
        engine.submit("x", logit_bias={70000: 1})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            Settings({"top_q": 1}, {}, [], None),
            "top_q is not a setting: it must be one of max_new_tokens, temp",
        ),
        (
            Settings({"repetition_penalty": 0}, {}, [], None),
            "repetition_penalty is 0, but must be from 0.01 to 100",
        ),
        (
            Settings({"presence_penalty": float("nan")}, {}, [], None),
            "presence_penalty is nan, but must be from -2 to 2",
        ),
        (
            Settings({}, {-1: 0}, [], None),
            "a token of logit_bias is -1, but must be from 0 to 2147483647",
        ),
        (
            Settings({}, {1: -101}, [], None),
            "a value of logit_bias is -101, but must be from -100 to 100",
        ),
        (Settings({}, {}, [b""], None), "a stop text is empty: give at least one character"),
        (Settings({}, {}, [], 21), "logprobs is 21, but must be from 0 to 20"),
    ],
)
def test_the_library_refuses(cpp_build: Path, settings: Settings, sentence: str) -> None:
    library()
    with pytest.raises(RunnerError) as caught, settings.open(collector([])):
        pass
    assert str(caught.value).startswith(sentence)
