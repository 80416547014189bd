"""Drafts in an engine: each request guesses for itself, and gets the text that it would get alone
without any."""

from pathlib import Path

import pytest
from support.cache_kinds import shared_kind
from support.tiers import checked, soaked
from support.windowed_model import CONTEXT

from runtime import AnswerOptions, Engine, Runner, RunnerError

CODE = "def add(first, second):\n    return first + second\n\n\n" * 2 + "def add(first"
LIST = "red, green, blue, red, green, blue, red, green,"
PROMPTS = (CODE, "Once upon a time", LIST, "", "x", CODE + ", third", LIST + " blue", "import os")
KINDS: dict[str, AnswerOptions] = {
    "array": {"json_schema": {"type": "array", "items": {"enum": ["first", "second"]}}},
    "regex": {"regex": "([a-c]{2,4} )+"},
    "logprobs": {"logprobs": 2},
    "stop": {"stop": "second"},
    "penalty": {"repetition_penalty": 1.1, "logit_bias": {13: -4}},
}


@pytest.fixture(
    scope="module",
    params=["full", *checked(["delta rule", "windows"]), *soaked(["short convolutions"])],
)
def pte(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> Path:
    return shared_kind(request, tmp_path_factory)


def options(i: int) -> AnswerOptions:
    """Greedy and sampled; some of three tokens alone, so that guesses are right and wrong whatever
    the model is."""
    few = {301: 100, 302: 100, 303: 100} if i % 2 else None
    return {"temperature": [0.0, 0.3, 1.0][i % 3], "top_p": 0.9, "seed": i, "logit_bias": few}


def told(runner: Runner) -> tuple[object, ...]:
    return tuple(
        runner.stats[name] for name in ("generated_tokens", "forced_tokens", "stop_reason")
    )


@pytest.mark.parametrize(("sequences", "prompt_rows"), [(1, 64), (3, 5), (8, 64)])
def test_texts_are_those_of_requests_alone(pte: Path, sequences: int, prompt_rows: int) -> None:
    plain = Runner(pte, threads=1)
    expected = []
    for i, prompt in enumerate(PROMPTS):
        text = "".join(plain.generate(prompt, 60 + i, **options(i)))
        expected.append((text, *told(plain)))
    runner = Runner(pte, threads=2, draft="ngram")
    drafted = accepted = 0
    with Engine(runner, sequences=sequences, prompt_rows=prompt_rows) as engine:
        work = [engine.submit(p, 60 + i, **options(i)) for i, p in enumerate(PROMPTS)]
        for one, (text, *stats) in zip(work, expected, strict=True):
            assert one.text() == text
            assert one.stats is not None
            assert [one.stats[n] for n in ("generated_tokens", "forced_tokens")] == stats[:2]
            assert one.stats["stop_reason"] == stats[2]
            assert 0 <= one.stats["accepted_tokens"] <= one.stats["drafted_tokens"]
            drafted += int(one.stats["drafted_tokens"])
            accepted += int(one.stats["accepted_tokens"])
    assert 0 < accepted < drafted
    # The runner is as it was.
    assert "".join(runner.generate(CODE, 60, **options(0))) == expected[0][0]


def test_a_prediction(stories_cpu_pte: Path, cpp_build: Path) -> None:
    """What the answer will be, what it will not, and both beside an answer without one."""
    runner = Runner(stories_cpu_pte, threads=1)
    sampling: AnswerOptions = {"temperature": 0.7, "seed": 5}
    expected = "".join(runner.generate("Once upon a time", 60, **sampling))
    with Engine(runner, sequences=3) as engine:
        right, wrong, none = (
            engine.submit("Once upon a time", 60, prediction=text, **sampling)
            for text in (f"So: {expected}", CODE, "")
        )
        assert right.text() == wrong.text() == none.text() == expected
        assert right.stats and wrong.stats and none.stats
        assert right.stats["accepted_tokens"] > max(30, wrong.stats["accepted_tokens"])
        assert none.stats["drafted_tokens"] == 0
        with pytest.raises(RunnerError, match="^prediction is 3, but must be a string"):
            engine.submit("Once", prediction=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_with_every_option(embedded_cpu_pte: Path, cpp_build: Path, kind: str) -> None:
    plain = Runner(embedded_cpu_pte, threads=1)
    expected = []
    wanted: list[AnswerOptions] = [{**options(i), **KINDS[kind]} for i in range(0, 8, 2)]
    for each in wanted:
        text = "".join(plain.generate(CODE, 50, **each))
        expected.append((text, plain.logprobs, told(plain)))
    with Engine(Runner(embedded_cpu_pte, threads=1, draft="ngram"), sequences=3) as engine:
        work = [engine.submit(CODE, 50, **each) for each in wanted]
        for one, (text, logprobs, stats) in zip(work, expected, strict=True):
            assert (one.text(), one.logprobs) == (text, logprobs)
            assert one.stats is not None
            names = ("generated_tokens", "forced_tokens", "stop_reason")
            assert tuple(one.stats[name] for name in names) == stats


def test_repetitions_are_guessed(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    with Engine(Runner(embedded_cpu_pte, threads=1, draft="ngram"), sequences=4) as engine:
        work = [engine.submit(CODE, 60) for _ in range(4)]
        for one in work:
            one.text()
            assert one.stats is not None
            assert one.stats["accepted_tokens"] > 0, "how many more depends on what calls cost"
    with Engine(Runner(embedded_cpu_pte, threads=1)) as engine:
        one = engine.submit(CODE, 20)
        one.text()
        assert one.stats is not None and one.stats["drafted_tokens"] == 0


@pytest.mark.parametrize("sequences", [1, 20])
def test_any_number_of_tokens(embedded_cpu_pte: Path, cpp_build: Path, sequences: int) -> None:
    """20 sequences may not draft as much as each wants: a call has logits of 64 rows at most."""
    runner = Runner(embedded_cpu_pte, threads=1)
    expected = ["".join(runner.generate(CODE, count)) for count in range(1, 24)]
    with Engine(Runner(embedded_cpu_pte, threads=1, draft="ngram"), sequences=sequences) as engine:
        work = [engine.submit(CODE, count) for count in range(1, 24)]
        assert [one.text() for one in work] == expected


def test_up_to_the_end_of_the_context(pte: Path) -> None:
    runner, prompt, line = Runner(pte, threads=1), "", "a b c d e f g h "
    while len(runner.encode_prompt(prompt + line)) < CONTEXT - 20:
        prompt += line
    expected = ("".join(runner.generate(prompt, 250)), *told(runner))
    with Engine(Runner(pte, threads=1, draft="ngram"), sequences=2) as engine:
        for one in [engine.submit(prompt, 250) for _ in range(3)]:
            found = one.text()
            assert one.stats is not None
            names = ("generated_tokens", "forced_tokens", "stop_reason")
            assert (found, *(one.stats[name] for name in names)) == expected


def test_prefixes_are_still_shared(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    """A cache has what its answer has, and nothing of a guess that was wrong."""
    with Engine(Runner(embedded_cpu_pte, threads=1, draft="ngram"), sequences=1) as engine:
        first = engine.submit(CODE, 40).text()
        alone = "".join(Runner(embedded_cpu_pte, threads=1).generate(CODE + first, 30))
        second = engine.submit(CODE + first, 30)
        assert second.text() == alone
        assert second.stats is not None and second.stats["prompt_tokens"] < 8


def test_a_draft_model_is_refused(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    runner = Runner(embedded_cpu_pte, threads=1, draft=embedded_cpu_pte)
    with pytest.raises(RunnerError, match="the draft is a model, which guesses for one text"):
        Engine(runner)
    assert len("".join(runner.generate("x", 5))) > 0
