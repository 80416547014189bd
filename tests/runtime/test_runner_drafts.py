"""Drafts change when a text comes, never the text: drafts of repetitions and of a smaller model, on
caches of every kind."""

import json
import subprocess
from pathlib import Path

import pytest
from support.cache_kinds import shared_kind
from support.tiers import checked, soaked
from support.windowed_model import CONTEXT

from runtime import Chat, Runner, RunnerError

CODE = "def add(first, second):\n    return first + second\n\n\n" * 2 + "def add(first"
PROMPTS = (CODE, "Once upon a time", "")
SAMPLINGS = ({}, {"temperature": 1.0, "seed": 4}, {"temperature": 0.7, "top_p": 0.9, "seed": 5})


@pytest.fixture(
    scope="module", params=["windows", *checked(["delta rule"]), *soaked(["short convolutions"])]
)
def short_pte(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> Path:
    """A model with a context of CONTEXT."""
    return shared_kind(request, tmp_path_factory)


def told(runner: Runner, prompt: str, sampling: dict[str, float]) -> tuple[str, str, int]:
    """An answer, how it continues in another call, and the length of the cache."""
    first = "".join(runner.generate(prompt, max_new_tokens=90, **sampling))
    second = "".join(runner.generate(prompt + first[:40], max_new_tokens=9, **sampling))
    return first, second, runner.length


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled", "nucleus"])
@pytest.mark.parametrize("prompt", PROMPTS, ids=["code", "story", "empty"])
def test_the_text_is_the_same(short_pte: Path, prompt: str, sampling: dict[str, float]) -> None:
    expected = told(Runner(short_pte, threads=1), prompt, sampling)
    for draft in ("ngram", short_pte):
        runner = Runner(short_pte, threads=2, draft=draft)
        assert told(runner, prompt, sampling) == expected


@pytest.mark.check
@pytest.mark.parametrize("sampling", [SAMPLINGS[1], *checked([SAMPLINGS[0], SAMPLINGS[2]])])
def test_the_text_of_a_trained_model_is_the_same(
    embedded_cpu_pte: Path, cpp_build: Path, sampling: dict[str, float]
) -> None:
    runners = [Runner(embedded_cpu_pte, draft=draft) for draft in (None, "ngram", embedded_cpu_pte)]
    for prompt in PROMPTS:
        expected, *others = [told(runner, prompt, sampling) for runner in runners]
        assert others == [expected, expected]


def test_repetitions_are_guessed(embedded_cpu_pte: Path, cpp_build: Path, tmp_path: Path) -> None:
    plain, drafting = Runner(embedded_cpu_pte), Runner(embedded_cpu_pte, draft="ngram")
    texts = ["".join(one.generate(CODE, max_new_tokens=60)) for one in (plain, drafting)]
    assert texts[0] == texts[1]
    assert plain.stats["drafted_tokens"] == 0
    assert drafting.stats["accepted_tokens"] > 0, "how many more depends on what calls cost"
    assert drafting.stats["generated_tokens"] == 60
    for name, runner in (("plain", plain), ("drafting", drafting)):
        runner.save(tmp_path / name)
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "drafting").read_bytes()


def test_a_model_that_is_its_own_draft_is_always_right(
    embedded_cpu_pte: Path, cpp_build: Path
) -> None:
    runner = Runner(embedded_cpu_pte, draft=embedded_cpu_pte)
    for sampling in SAMPLINGS:
        list(runner.generate("import os", max_new_tokens=50, **sampling))
        drafted, accepted = (runner.stats[f"{name}_tokens"] for name in ("drafted", "accepted"))
        assert accepted == drafted > 0, "what was guessed behind the last token does not count"


@pytest.mark.parametrize("count", range(1, 12))
def test_any_number_of_tokens(embedded_cpu_pte: Path, cpp_build: Path, count: int) -> None:
    runners = Runner(embedded_cpu_pte), Runner(embedded_cpu_pte, draft="ngram")
    texts = ["".join(one.generate(CODE, max_new_tokens=count)) for one in runners]
    assert texts[0] == texts[1]
    assert runners[0].length == runners[1].length
    assert runners[1].stats["generated_tokens"] == count


def test_up_to_the_end_of_the_context(short_pte: Path) -> None:
    """The prompt leaves few positions."""
    ends = []
    for draft in (None, "ngram", short_pte):
        runner, prompt, line = Runner(short_pte, draft=draft), "", "a b c d e f g h "
        while len(runner.encode(prompt + line)) < CONTEXT - 12:
            prompt += line
        ends.append(("".join(runner.generate(prompt)), runner.stats["stop_reason"], runner.length))
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][2] <= CONTEXT


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled", "nucleus"])
def test_under_a_constraint(
    embedded_cpu_pte: Path, cpp_build: Path, sampling: dict[str, float]
) -> None:
    schema = {"type": "array", "items": {"enum": ["first", "second"]}, "minItems": 9}
    texts = []
    for draft in (None, "ngram", embedded_cpu_pte):
        runner = Runner(embedded_cpu_pte, draft=draft)
        answer = runner.generate("[", max_new_tokens=60, json_schema=schema, **sampling)
        texts.append(("".join(answer), runner.length))
    assert texts[0] == texts[1] == texts[2]
    assert "first" in texts[0][0] or "second" in texts[0][0]


def test_a_chat(chat_pte: Path, cpp_build: Path) -> None:
    answers = []
    for draft in (None, "ngram"):
        runner = Runner(chat_pte, draft=draft)
        chat = Chat(runner)
        said = ["".join(chat.say(line, max_new_tokens=25)) for line in ("Tell it.", "Tell it.")]
        fork = Chat(runner.fork())
        said.append("".join(fork.say("Again.", max_new_tokens=25)))
        said.append("".join(chat.say("And now?", max_new_tokens=25)))
        answers.append(said)
    assert answers[0] == answers[1]


def test_a_draft_for_another_model(
    embedded_cpu_pte: Path, stories_cpu_pte: Path, cpp_build: Path, tmp_path: Path
) -> None:
    with pytest.raises(RunnerError, match="does not have the tokens of .* of the same family"):
        Runner(embedded_cpu_pte, draft=stories_cpu_pte)
    with pytest.raises(RunnerError, match=r"nothing\.pte"):
        Runner(embedded_cpu_pte, draft=tmp_path / "nothing.pte")


def test_only_the_cpu_delegate_verifies(stories_pte: Path, cpp_build: Path) -> None:
    with pytest.raises(RunnerError, match="cannot verify drafts.*--delegate cpu"):
        Runner(stories_pte, draft="ngram")


def test_the_command(embedded_cpu_pte: Path, cpp_build: Path, tmp_path: Path) -> None:
    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [cpp_build / "runner", embedded_cpu_pte, "-p", CODE, "-n", "40", *options]
        return subprocess.run(command, capture_output=True, text=True)

    stats = tmp_path / "stats.json"
    plain, drafting = run(), run("--draft", "ngram", "--json", str(stats))
    assert plain.returncode == drafting.returncode == 0, drafting.stderr
    assert plain.stdout == drafting.stdout
    told = json.loads(stats.read_text())
    shown = f"{told['accepted_tokens']} of {told['drafted_tokens']} drafted accepted"
    assert shown in drafting.stderr
    assert "drafted" not in plain.stderr
    wrong = run("--draft", str(tmp_path / "nothing.pte"))
    assert wrong.returncode == 2
    assert "nothing.pte" in wrong.stderr
