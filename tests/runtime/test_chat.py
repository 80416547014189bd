"""Chats from Python: the same conversation as the runner's --chat, in memory and in a file."""

import itertools
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.chats import messages_of, rendered

from runtime import Chat, Runner, RunnerError
from runtime.binding.library import library

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = "Be nice."
LINES = [f"Tell me more about number {number}" for number in range(16)]

Converse = Callable[..., str]


@pytest.fixture
def runner(cpp_build: Path, chat_pte: Path) -> Iterator[Runner]:
    with Runner(chat_pte, threads=1) as runner:
        yield runner


@pytest.fixture
def converse(cpp_build: Path, chat_pte: Path) -> Converse:
    def run(lines: list[str], *options: str | Path) -> str:
        command: list[str | Path] = [cpp_build / "runner", chat_pte, "--chat", "-n", "20"]
        result = subprocess.run(
            [*command, "--threads", "1", *options],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def answer(chat: Chat, line: str) -> str:
    return "".join(chat.say(line, max_new_tokens=20))


def test_python_chats_as_the_runner_does(runner: Runner, converse: Converse) -> None:
    chat = Chat(runner, SYSTEM)
    answers, dropped = [], []
    for line in LINES:
        answers.append(answer(chat, line))
        dropped.append(chat.dropped_turns)
        assert chat.turns == len(answers) - sum(dropped)
    assert "".join(f"{answer}\n" for answer in answers) == converse(LINES, "--system", SYSTEM)
    assert 1 <= sum(turns > 0 for turns in dropped) < len(LINES) // 3
    assert runner.stats["generated_tokens"] <= 20  # of the last answer


def test_a_chat_moves_between_python_and_the_runner(
    runner: Runner, converse: Converse, tmp_path: Path
) -> None:
    session = tmp_path / "chat.session"
    expected = converse(LINES[:4], "--system", SYSTEM)
    said = converse(LINES[:1], "--system", SYSTEM, "--session", session)
    runner.restore(session)
    chat = Chat(runner)
    assert chat.turns == 1
    said += answer(chat, LINES[1]) + "\n"
    assert runner.stats["prompt_tokens"] < runner.length // 2  # the cache came along
    runner.save(session)
    said += converse(LINES[2:3], "--session", session)
    runner.restore(session)
    assert Chat(runner).turns == 3
    assert said + answer(chat, LINES[3]) + "\n" == expected


def test_forks_chat_by_themselves(runner: Runner) -> None:
    chat = Chat(runner)
    answer(chat, "Once upon a time")
    with runner.fork() as fork:
        other = Chat(fork)
        first = answer(other, "Who was it?")
        assert (chat.turns, other.turns) == (1, 2)
        assert answer(chat, "Who was it?") == first
        other.reset()
        assert (chat.turns, other.turns) == (2, 0)


def test_each_chat_is_a_conversation_of_its_own(runner: Runner, tmp_path: Path) -> None:
    alone = Chat(runner, SYSTEM)
    expected = [answer(alone, line) for line in LINES[:3]]
    first, second = Chat(runner, SYSTEM), Chat(runner)
    said = [answer(first, LINES[0])]
    assert (first.turns, second.turns, alone.turns) == (1, 0, 3)
    other = answer(second, LINES[0])
    assert other != said[0]  # it has no system prompt
    said.append(answer(first, LINES[1]))
    second.reset()
    assert answer(second, LINES[0]) == other
    assert first.turns == 2  # which is not to use it
    with pytest.raises(RunnerError, match="the system prompt has"):
        Chat(runner, "word " * 300)
    runner.save(tmp_path / "chat.session")  # of the second, which was used last
    assert messages_of(tmp_path / "chat.session") == [("user", LINES[0]), ("assistant", other)]
    del second, other
    assert [*said, answer(first, LINES[2])] == expected
    runner.restore(tmp_path / "chat.session")
    assert (first.turns, Chat(runner).turns, alone.turns) == (1, 1, 3)


def test_a_chat_goes_on_with_turns_that_were_kept(runner: Runner) -> None:
    alone = Chat(runner, SYSTEM)
    turns = [(line, answer(alone, line)) for line in LINES[:2]]
    resumed = Chat(runner, SYSTEM)
    for message, said in turns:
        resumed.add(message, said)
    assert resumed.turns == 2 and answer(resumed, LINES[2]) == answer(alone, LINES[2])
    with pytest.raises(RunnerError, match="^answer is 3, but must be a string"):
        resumed.add("Hello", 3)  # type: ignore[arg-type]
    assert resumed.turns == 3


def test_the_conversation_of_a_chat_that_is_gone_is_forgotten(runner: Runner) -> None:
    """Also of the one that was used last, and of one that was gone during an answer."""
    turns_of, kept = library().thimble_chat_turns_of, Chat(runner)
    answer(kept, LINES[0])
    numbers = []
    for busy in (False, True):
        chat = Chat(runner)
        numbers.append(chat._number)
        answers = runner.generate("Once", max_new_tokens=3) if busy else iter(())
        next(answers, "")
        del chat
        list(answers)
    assert [turns_of(runner._handle, number) for number in numbers] == [-1, 0]
    numbers.append(Chat(runner)._number)
    assert [turns_of(runner._handle, number) for number in numbers] == [-1, -1, 0]
    assert kept.turns == 1


def test_reset_and_prompts_in_between(runner: Runner, converse: Converse) -> None:
    chat = Chat(runner, SYSTEM)
    first = answer(chat, "Hello")
    list(runner.generate("Once upon a time", max_new_tokens=5))
    second = answer(chat, "Who was it?")
    assert f"{first}\n{second}\n" == converse(["Hello", "Who was it?"], "--system", SYSTEM)
    chat.reset()
    assert chat.turns == 0 and runner.length > 0  # the system prompt
    assert answer(chat, "Hello") == first


def test_a_refused_message_is_not_part_of_the_chat(runner: Runner, tmp_path: Path) -> None:
    chat = Chat(runner)
    answer(chat, "Hello")
    session = tmp_path / "chat.session"
    runner.save(session)
    messages = messages_of(session)
    with pytest.raises(RunnerError, match="^the message has .*: shorten the message, or export"):
        answer(chat, "word " * 300)
    assert chat.dropped_turns == 0
    for options in ({"temperature": -1.0}, {"max_new_tokens": 0}):
        with pytest.raises(RunnerError, match="but must be from"):
            chat.say("Hello", **options)  # type: ignore[arg-type]
    with pytest.raises(RunnerError, match="^the system prompt is None, but must be a string"):
        Chat(runner, None)  # type: ignore[arg-type]
    with pytest.raises(RunnerError, match="^the system prompt has .* holds 256: shorten it"):
        Chat(runner, "word " * 300)
    runner.save(session)
    assert messages_of(session) == messages
    assert answer(chat, "Who was it?") == "".join(
        runner.generate(rendered([*messages, ("user", "Who was it?")]), max_new_tokens=20)
    )


def test_an_answer_that_is_closed_stays_as_far_as_it_came(runner: Runner, tmp_path: Path) -> None:
    chat = Chat(runner)
    whole = answer(chat, "Once upon a time")
    chat.reset()
    pieces = chat.say("Once upon a time")
    begun = "".join(itertools.islice(pieces, 2))
    with pytest.raises(RunnerError, match="is generating already"):
        chat.turns  # noqa: B018
    pieces.close()
    session = tmp_path / "chat.session"
    runner.save(session)
    _, (role, kept) = messages_of(session)
    assert role == "assistant" and kept.startswith(begun) and whole.startswith(begun)


def test_a_model_without_a_template_does_not_chat(cpp_build: Path, stories_cpu_pte: Path) -> None:
    with Runner(stories_cpu_pte, threads=1) as runner:
        with pytest.raises(
            RunnerError,
            match=r"\.pte has no chat template: use generate\(\), or export a checkpoint that",
        ):
            Chat(runner)


def test_the_library_tells_its_version(cpp_build: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert library().thimble_version().decode() == project["version"]
