"""thimble_interrupt(): answers end between calls of the model, and what was read stays right."""

import ctypes
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import Chat, Runner
from runtime.binding.answer_stream import Pieces
from runtime.binding.library import ERROR_SIZE, Options, TextCallback, library

PART = 256  # tokens of a prompt in a call
PROMPT = "def add(first, second):\n    return first + second\n\n\n" * 40


@pytest.fixture
def runner(cpp_build: Path, embedded_cpu_pte: Path) -> Iterator[Runner]:
    with Runner(embedded_cpu_pte, threads=1) as runner:
        yield runner


def generate(runner: Runner, prompt: str, count: int = 4) -> bytes:
    """As C does it: Python's generate() sets the flag itself."""
    pieces: list[bytes] = []

    def take(text: object, size: int, _context: object) -> int:
        pieces.append(ctypes.string_at(text, size))  # type: ignore[arg-type]
        return 1

    error, data = ctypes.create_string_buffer(ERROR_SIZE), prompt.encode()
    options = ctypes.byref(Options(max_new_tokens=count, top_p=1.0))
    callback = TextCallback(take)
    arguments = (data, len(data), options, callback, None, error, ERROR_SIZE)
    assert not library().thimble_generate(runner._handle, *arguments), error.value
    return b"".join(pieces)


def interrupt(runner: Runner, value: int) -> None:
    library().thimble_interrupt(runner._handle, value)


def test_the_parts_of_a_prompt_change_nothing(runner: Runner, tmp_path: Path) -> None:
    """A prompt that cannot be interrupted is read in one call: the same cache, bit for bit."""
    tokens = runner.encode_prompt(PROMPT)
    runner.start_recording()
    generate(runner, PROMPT, 1)
    calls = runner.stop_recording(tmp_path / "parts.etdp").calls
    assert calls == -(-len(tokens) // PART) > 2
    runner.save(tmp_path / "parts")
    runner.truncate(0)
    runner.logits(tokens, len(tokens) - 1)
    runner.save(tmp_path / "whole")
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_an_answer_ends_before_it_begins(runner: Runner) -> None:
    interrupt(runner, 1)
    assert generate(runner, PROMPT) == b""
    stats = runner.stats
    assert (stats["stop_reason"], stats["prompt_tokens"]) == ("interrupted", 0)
    assert runner.length == 0
    assert generate(runner, PROMPT) == b"", "it stays interrupted"
    interrupt(runner, 0)
    assert generate(runner, PROMPT) != b""
    assert runner.stats["stop_reason"] == "length"


def test_in_the_middle_of_a_prompt(cpp_build: Path, runner: Runner) -> None:
    """Wherever it ends, the next answer is the same; no token is chosen in the middle."""
    expected = generate(runner, PROMPT)
    total = len(runner.encode_prompt(PROMPT))
    for wait in (0.0, 0.002, 0.005, 0.01, 0.02, 0.04):
        runner.truncate(0)
        thread = threading.Timer(wait, interrupt, (runner, 1))
        thread.start()
        said = generate(runner, PROMPT)
        thread.join()
        read = runner.stats["prompt_tokens"]
        if read < total:
            assert (said, read % PART, runner.length) == (b"", 0, read)
            assert runner.stats["stop_reason"] == "interrupted"
        else:
            assert expected.startswith(said)
        interrupt(runner, 0)
        assert generate(runner, PROMPT) == expected


def test_within_a_callback(runner: Runner) -> None:
    """The piece that is being received is the last."""
    pieces: list[int] = []

    def take(_text: object, size: int, _context: object) -> int:
        pieces.append(size)
        interrupt(runner, 1)
        return 1

    error, callback = ctypes.create_string_buffer(ERROR_SIZE), TextCallback(take)
    options = ctypes.byref(Options(max_new_tokens=100, top_p=1.0))
    arguments = (b"def", 3, options, callback, None, error, ERROR_SIZE)
    assert not library().thimble_generate(runner._handle, *arguments)
    assert runner.stats["stop_reason"] == "interrupted"
    assert 1 <= len(pieces) <= 2, "at most one more token was chosen by then"


def test_a_fork_is_its_own(runner: Runner) -> None:
    interrupt(runner, 1)
    with runner.fork() as fork:
        assert generate(fork, "def") != b""


def test_a_chat_keeps_what_there_is(chat_pte: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that generates waits with its first piece until the iterator is closed."""
    closed = threading.Event()
    put, end = Pieces.put, Runner._interrupt

    def hold(pieces: Pieces, piece: str) -> None:
        put(pieces, piece)
        assert closed.wait(600)

    def close(runner: Runner) -> None:
        end(runner)
        closed.set()

    monkeypatch.setattr(Pieces, "put", hold)
    monkeypatch.setattr(Runner, "_interrupt", close)
    with Runner(chat_pte, threads=1) as runner:
        chat = Chat(runner)
        answer = chat.say("Tell me a story.", 50)
        first = next(answer)
        answer.close()
        assert runner.stats["stop_reason"] == "interrupted" and chat.turns == 1
        assert first and "".join(chat.say("And then?", 4))


def test_an_iterator_that_is_closed_in_the_prompt(runner: Runner) -> None:
    """Python's Runner is usable again, and says the same."""
    expected = "".join(runner.generate(PROMPT, 4))
    runner.truncate(0)
    closing = threading.Timer(0.01, runner._interrupt)
    closing.start()
    "".join(runner.generate(PROMPT, 4))
    closing.join()
    assert "".join(runner.generate(PROMPT, 4)) == expected
