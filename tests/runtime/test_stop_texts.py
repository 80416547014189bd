"""Stop texts: where an answer ends, however its text comes in tokens."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.chats import messages_of

from runtime import Chat, Engine, Runner

PROMPT = "def add(first, second):\n    return first"
COUNT = 40


@pytest.fixture
def runner(embedded_cpu_pte: Path, cpp_build: Path) -> Iterator[Runner]:
    with Runner(embedded_cpu_pte, threads=1) as runner:
        yield runner


def cut(text: str, stops: list[str]) -> str:
    """Up to the stop text that is complete first, the longest of several."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - max(map(len, complete))]
    return text


def said(runner: Runner, stops: list[str] | str, **options: object) -> tuple[str, str]:
    pieces = runner.generate(PROMPT, COUNT, stop=stops, **options)  # type: ignore[arg-type]
    return "".join(pieces), str(runner.stats["stop_reason"])


def test_at_every_position(runner: Runner) -> None:
    """Texts of several lengths that begin anywhere, so that tokens split them in every way."""
    text, _ = said(runner, [])
    for length in (1, 2, 3, 7):
        for at in range(0, len(text) - length, 3):
            stop = text[at : at + length]
            assert said(runner, stop) == (cut(text, [stop]), "stop"), (at, length)


def test_what_begins_like_a_stop_text_is_passed_on(runner: Runner) -> None:
    text, reason = said(runner, [])
    for at in (0, 5, len(text) - 4):
        assert said(runner, text[at:] + "?") == (text, reason)
    assert said(runner, [text + text, text[1:] + "\0"]) == (text, reason)


def test_several(runner: Runner) -> None:
    text, _ = said(runner, [])
    middle = len(text) // 2
    inner, outer = text[middle + 2 : middle + 4], text[middle : middle + 6]
    for stops in (
        [outer, inner],  # the inner one is complete first
        [inner, text[middle : middle + 4]],  # both at once
        [text[middle + 5 :], text[-3:]],
        ["nowhere", inner, "else"],
    ):
        assert said(runner, stops) == (cut(text, stops), "stop")
    assert cut(text, [outer, inner]) != cut(text, [outer])


@pytest.mark.parametrize("stop", ["é", "日本", "😀", "本語x"])
def test_characters_of_several_bytes(runner: Runner, stop: str) -> None:
    """A constraint makes the answer; its tokens are single bytes of these characters."""
    text = "aé日é本 日本語😀日本語x é"
    found, reason = said(runner, stop, choice=[text])
    assert (found, reason) == (cut(text, [stop]), "stop")
    assert runner.stats["incomplete"] == (cut(text, [stop]) != text[: -len(stop)])


def test_the_end_of_the_answer_passes_on_what_is_held_back(runner: Runner) -> None:
    assert said(runner, "abcdef", choice=["xyabcde"]) == ("xyabcde", "complete")
    assert said(runner, "de", choice=["xyabcde"])[0] == "xyabc"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_and_an_engine_change_nothing(
    embedded_cpu_pte: Path, runner: Runner, temperature: float
) -> None:
    sampling = {"temperature": temperature, "seed": 3}
    text, _ = said(runner, [], **sampling)
    for at in (1, 9, 25):
        stop = text[at : at + 3]
        expected = said(runner, stop, **sampling)
        assert expected == (cut(text, [stop]), "stop")
        drafting = Runner(embedded_cpu_pte, draft="ngram")
        assert said(drafting, stop, **sampling) == expected
        with Engine(runner, sequences=2) as engine:
            work = [engine.submit(PROMPT, COUNT, stop=stop, **sampling) for _ in range(2)]
            assert [(one.text(), one.stats["stop_reason"]) for one in work] == [expected] * 2


def test_a_conversation_keeps_what_was_passed_on(
    chat_pte: Path, cpp_build: Path, tmp_path: Path
) -> None:
    with Runner(chat_pte, threads=1) as runner:
        text = "".join(Chat(runner).say("Tell it.", 30))
        stop = text[len(text) // 2 :][:3]
        Chat(runner).reset()
        chat = Chat(runner)
        answer = "".join(chat.say("Tell it.", 30, stop=[stop]))
        assert answer == cut(text, [stop]) != text
        assert "".join(chat.say("And then?", 5))
        runner.save(tmp_path / "session")
    assert ("assistant", answer) in messages_of(tmp_path / "session")


def test_the_commands(embedded_cpu_pte: Path, runner: Runner, cpp_build: Path) -> None:
    text, _ = said(runner, [])
    stops = [text[10:13], text[20:22]]
    token = runner.encode("x")[0]
    options = ["-p", PROMPT, "-n", str(COUNT), "--stop", stops[0], f"--stop={stops[1]}"]
    options += ["--repetition-penalty", "1.1", "--presence-penalty", "-0.1"]
    options += ["--frequency-penalty", "0.1", "--logit-bias", f"{token}=-1.5"]
    expected = "".join(
        runner.generate(
            PROMPT,
            COUNT,
            stop=stops,
            repetition_penalty=1.1,
            presence_penalty=-0.1,
            frequency_penalty=0.1,
            logit_bias={token: -1.5},
        )
    )
    command = [cpp_build / "runner", embedded_cpu_pte, *options]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.stdout, result.returncode) == (expected, 0), result.stderr
