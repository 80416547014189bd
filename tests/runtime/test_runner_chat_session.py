"""Chats that go on in another run: the session keeps the messages beside the cache."""

import json
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from support.chats import messages_of, rendered

from runtime import Runner, RunnerError

Run = Callable[..., subprocess.CompletedProcess[str]]
LINES = ["Once upon a time", "Who was it?", "Lily"]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tmp_path / "chat.session"


@pytest.fixture
def run(cpp_build: Path, chat_pte: Path) -> Run:
    def run(*options: str | Path, lines: str = "") -> subprocess.CompletedProcess[str]:
        common = ["-n", "12", "--threads", "1"]
        command: list[str | Path] = [cpp_build / "runner", chat_pte, *common, *options]
        return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60)

    return run


def cached_tokens(stats: Path) -> int:
    return int(json.loads(stats.read_text())["cached_tokens"])


def test_a_chat_resumes_in_the_next_run(run: Run, session: Path, tmp_path: Path) -> None:
    together = run("--chat", lines="\n".join(LINES) + "\n")
    stats = tmp_path / "stats.json"
    said = ""
    for turn, line in enumerate(LINES):
        result = run("--chat", "--session", session, "--json", stats, lines=line + "\n")
        assert result.returncode == 0
        said += result.stdout
        if turn > 0:
            turns = "1 turn" if turn == 1 else f"{turn} turns"
            note = f"runner: resuming the conversation in {session} ({turns})\n"
            assert result.stderr.startswith(note)
            assert cached_tokens(stats) > 10  # the messages, and the cache as well
    assert said == together.stdout
    assert len(messages_of(session)) == 2 * len(LINES)


def test_a_run_without_a_line_leaves_the_chat_as_it_is(run: Run, session: Path) -> None:
    run("--chat", "--session", session, lines="Hello\n")
    before = session.read_bytes()
    assert run("--chat", "--session", session).returncode == 0
    assert session.read_bytes() == before


def test_another_system_prompt_replaces_the_first(run: Run, session: Path) -> None:
    run("--chat", "--session", session, lines="Hello\n")
    for system in ["Be nice.", "Be brief."]:
        *asked, user, _ = [
            *messages_of(session),
            ("user", "Who was it?"),
            ("assistant", ""),
        ]
        asked = [message for message in asked if message[0] != "system"]
        expected = run("-p", rendered([("system", system), *asked, user])).stdout + "\n"
        answer = run("--chat", "--system", system, "--session", session, lines="Who was it?\n")
        assert answer.stdout == expected
        assert messages_of(session)[0] == ("system", system)
        assert [role for role, _ in messages_of(session)].count("system") == 1
    answer = run("--chat", "--session", session, lines="Lily\n")  # without one, it stays
    assert messages_of(session)[0] == ("system", "Be brief.")


def test_a_prompt_of_its_own_keeps_the_chat(run: Run, session: Path) -> None:
    run("--chat", "--session", session, lines="Hello\n")
    messages = messages_of(session)
    assert run("-p", "Once upon a time", "--session", session).returncode == 0
    assert messages_of(session) == messages
    expected = run("-p", rendered([*messages, ("user", "Lily")])).stdout + "\n"
    assert run("--chat", "--session", session, "-p", "Lily").stdout == expected


def test_a_chat_that_cannot_be_printed_is_kept(
    cpp_build: Path, chat_pte: Path, run: Run, session: Path
) -> None:
    run("--chat", "--session", session, lines="Hello\n")
    messages = messages_of(session)
    command: list[str | Path] = [cpp_build / "runner", chat_pte, "--chat", "--session", session]
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            command, input="Lily\nNot said\n", stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 1
    full_disk = "runner: cannot write to standard output: No space left on device\n"
    assert result.stderr.count(full_disk) == 1
    *before, user, _ = messages_of(session)
    assert (before, user) == (messages, ("user", "Lily"))


def as_version_1(session: Path) -> None:
    """Makes a session without messages what the format was before there were any."""
    data = bytearray(session.read_bytes())
    data[8:12] = struct.pack("<I", 1)
    data[44:48] = struct.pack("<I", zlib.crc32(data[:44]))
    session.write_bytes(data)


def test_a_session_from_before_there_were_messages(run: Run, session: Path, tmp_path: Path) -> None:
    story = "Once upon a time, there was a little girl"
    text = run("-p", story, "--session", session).stdout
    as_version_1(session)
    stats = tmp_path / "stats.json"
    result = run("-p", story, "--session", session, "--json", stats)
    assert (result.returncode, result.stdout) == (0, text)
    assert json.loads(stats.read_text())["prompt_tokens"] == 1
    as_version_1(session)
    result = run("--chat", "--session", session, lines="Hello\n")
    assert result.returncode == 0
    assert f"runner: {session} has no conversation: a new one starts\n" in result.stderr
    assert [role for role, _ in messages_of(session)] == ["user", "assistant"]


def with_messages(data: bytes, messages: bytes) -> bytes:
    """The session with other messages, every checksum right."""
    header = bytearray(data[:48])
    (token_count,) = struct.unpack_from("<I", data, 12)
    (size,) = struct.unpack_from("<I", data, 40)
    tokens_end = 48 + 4 * token_count
    text = data[48:tokens_end] + messages
    header[32:36] = struct.pack("<I", zlib.crc32(text))
    header[40:44] = struct.pack("<I", len(messages))
    header[44:48] = struct.pack("<I", zlib.crc32(header[:44]))
    return bytes(header) + text + data[tokens_end + size :]


def message(role: int, text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<II", role, len(text) if length is None else length) + text


TURN = message(1, b"Hello") + message(2, b"Hi")
NO_CONVERSATIONS = [
    message(1, b"Hello"),
    TURN + message(1, b"Hello"),
    message(2, b"Hi"),
    TURN + TURN[:-1],
    TURN + message(0, b"Be nice."),
    message(0, b"Be nice.") * 2 + TURN,
    message(3, b"Hello") + message(2, b"Hi"),
    message(1, b"Hello", 2**32 - 1) + message(2, b"Hi"),
    TURN + b"\0\0\0",
]


def test_a_damaged_chat_is_refused_and_left_alone(run: Run, session: Path) -> None:
    run("--chat", "--system", "Be nice.", "--session", session, lines="Hello\n")
    data = session.read_bytes()
    damaged = (
        f"runner: the session {session} is damaged: name another file, or delete it to start a new "
        "session\n"
    )
    (token_count,) = struct.unpack_from("<I", data, 12)
    (size,) = struct.unpack_from("<I", data, 40)
    messages = 48 + 4 * token_count
    wrong = [data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] for at in range(40, 48)]
    wrong += [
        data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        for at in range(messages, messages + size, 7)
    ]
    wrong += [with_messages(data, messages) for messages in NO_CONVERSATIONS]
    for bad in wrong:
        session.write_bytes(bad)
        result = run("--chat", "--session", session, lines="Who was it?\n")
        assert (result.returncode, result.stdout, result.stderr) == (2, "", damaged)
        assert session.read_bytes() == bad
    for good in [b"", TURN, message(0, b"Be nice."), message(0, b"") + TURN * 2]:
        session.write_bytes(with_messages(data, good))
        assert run("--chat", "--session", session).returncode == 0
        assert session.read_bytes() == with_messages(data, good)


def test_python_keeps_the_chat_of_a_session(
    run: Run, chat_pte: Path, session: Path, tmp_path: Path
) -> None:
    run("--chat", "--session", session, lines="Hello\n")
    messages = messages_of(session)
    copy, fork = tmp_path / "copy.session", tmp_path / "fork.session"
    with Runner(chat_pte, threads=1) as runner:
        runner.restore(session)
        list(runner.generate("Once upon a time", max_new_tokens=3))
        runner.save(copy)
        with runner.fork() as forked:
            forked.save(fork)
        session.write_bytes(session.read_bytes()[:-1])
        with pytest.raises(RunnerError, match="is damaged: name another file"):
            runner.restore(session)
    assert messages_of(copy) == messages_of(fork) == messages
