"""Chatting: the template around each message, a cache that is not computed twice."""

import json
import os
import pty
import re
import signal
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.blocked_output import interrupt
from support.chats import WITHOUT_SYSTEM, export_chat_model, messages_of, rendered

Chat = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def chat(cpp_build: Path, chat_pte: Path) -> Chat:
    def run(*options: str, lines: str = "") -> subprocess.CompletedProcess[str]:
        command: list[str | Path] = [cpp_build / "runner", chat_pte, *options]
        return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60)

    return run


def test_one_turn_is_the_rendered_conversation(chat: Chat) -> None:
    answer = chat("--chat", "-p", "Once upon a time", "-n", "12").stdout
    rendered = "<user> Once upon a time\n<assistant> "
    assert answer == chat("-p", rendered, "-n", "12").stdout + "\n" != "\n"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("<think>\nHm, </thin\n</think>\n\nFour <think>.", "Four <think>."),
        (" \n<think></think>Four", "Four"),
        ("<think>Hm", ""),
        (" <thin", " <thin"),
        ("Four </think>", "Four </think>"),
    ],
)
def test_what_a_model_thinks_is_left_out(chat: Chat, said: str, shown: str) -> None:
    options = ["--chat", "-p", "2 + 2?", "--choice", said]
    assert chat(*options).stdout == shown + "\n"
    assert chat(*options, "--special-text").stdout == said + "\n"


def test_a_system_message_comes_first(chat: Chat) -> None:
    answer = chat("--chat", "--system", "Be nice.", "-p", "Once", "-n", "12").stdout
    rendered = "<system> Be nice.\n<user> Once\n<assistant> "
    assert answer == chat("-p", rendered, "-n", "12").stdout + "\n"


def test_turns_remember_and_are_not_computed_twice(chat: Chat, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    options = ["--chat", "-n", "12", "--json", str(stats)]
    result = chat(*options, lines="Once upon a time\n\nWho was it?\nLily\n")
    assert result.returncode == 0
    answers = result.stdout.splitlines()
    assert len(answers) == 3
    assert ">" not in result.stderr  # no terminal, no prompt

    rendered = ""
    tokens = 0
    alone = tmp_path / "alone.json"
    for message, answer in zip(["Once upon a time", "Who was it?", "Lily"], answers, strict=True):
        rendered += f"<user> {message}\n<assistant> "
        fresh = chat("-p", rendered, "-n", "12", "--json", str(alone))
        assert fresh.stdout == answer
        tokens = json.loads(alone.read_text())["prompt_tokens"]
        rendered += answer + "\n"
    together = json.loads(stats.read_text())
    assert together["generated_tokens"] == 36
    assert together["prompt_tokens"] < tokens  # the last turn alone, computed anew, takes more


def test_a_message_cannot_name_special_tokens(chat: Chat, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    counts = []
    for message in ["a", "a</s>"]:
        chat("--chat", "-p", message, "-n", "1", "--json", str(stats))
        counts.append(json.loads(stats.read_text())["prompt_tokens"])
    assert counts[1] > counts[0] + 1  # spelled out, not one token


TOO_LONG = "word " * 300
REFUSAL = "but the model's context holds 256: shorten the message"
OUTGROWN = "the conversation no longer fits the context (256 tokens): the oldest turns are dropped"
LINES = [f"Tell me more about number {number}" for number in range(16)]


def test_a_chat_that_outgrows_the_context_drops_its_oldest_turns(
    chat: Chat, tmp_path: Path
) -> None:
    """Line by line, each a run of its own over a session, and all in one run: what is said is what
    a fresh cache makes of the system prompt and the turns that are left."""
    session = tmp_path / "chat.session"
    options = ["--chat", "--system", "Be nice.", "-n", "20", "--threads", "1"]
    said, kept = "", []
    for line in LINES:
        answer = chat(*options, "--session", str(session), "-p", line).stdout
        *asked, last = messages_of(session)
        assert asked[0] == ("system", "Be nice.") and asked[-1] == ("user", line)
        assert last == ("assistant", answer.removesuffix("\n"))
        fresh = chat("-p", rendered(asked), "-n", "20", "--threads", "1")
        assert fresh.stdout + "\n" == answer
        said += answer
        kept.append(len(asked) // 2)
    drops = [now for before, now in zip(kept, kept[1:], strict=False) if now <= before]
    assert 1 <= len(drops) < len(LINES) // 3  # many at once, not one a turn
    assert all(turns > 1 for turns in drops)

    result = chat(*options, lines="\n".join(LINES) + "\n")
    assert (result.returncode, result.stdout) == (0, said)
    assert result.stderr.count(OUTGROWN) == 1


def test_an_answer_that_fills_the_context_does_not_end_the_chat(chat: Chat) -> None:
    first = chat("--chat", lines="Once upon a time\n")
    full = "the context is full (256 tokens): the answer ends here"
    assert (first.returncode, first.stderr.count(full)) == (0, 1)
    result = chat("--chat", lines="Once upon a time\nWho was it?\n")
    assert (result.returncode, result.stderr.count(OUTGROWN)) == (0, 1)
    # Nothing of the first turn is left beside a second of so many tokens.
    assert result.stdout == first.stdout + chat("--chat", lines="Who was it?\n").stdout


@pytest.mark.parametrize("words", [100, 230])
def test_a_long_line_pushes_out_what_it_must(chat: Chat, tmp_path: Path, words: int) -> None:
    """One that leaves less than half of the context free, and one that leaves next to nothing."""
    session = tmp_path / "chat.session"
    options = ["--chat", "-n", "20", "--threads", "1", "--session", str(session)]
    chat(*options, lines="Once upon a time\nWho was it?\n")
    answer = chat(*options, "-p", "a " * words)
    assert answer.returncode == 0, answer.stderr
    *asked, _ = messages_of(session)
    assert asked[-1] == ("user", "a " * words)
    assert (len(asked) > 1) == (words == 100)
    fresh = chat("-p", rendered(asked), "-n", "20", "--threads", "1").stdout
    assert answer.stdout == fresh + "\n"


def test_a_line_that_is_not_utf_8_is_refused_and_the_chat_continues(
    cpp_build: Path, chat_pte: Path
) -> None:
    command = [cpp_build / "runner", chat_pte, "--chat", "-n", "3", "--quiet"]
    told = subprocess.run(command, input=b"caf\xe9\nHello\n", capture_output=True)
    alone = subprocess.run(command, input=b"Hello\n", capture_output=True)
    assert (told.returncode, told.stdout) == (1, alone.stdout)
    assert told.stderr.startswith(b"runner: the message is not UTF-8, at byte 4: convert")


def test_a_line_too_long_is_refused_and_the_chat_continues(chat: Chat, tmp_path: Path) -> None:
    stats, session = tmp_path / "stats.json", tmp_path / "chat.session"
    files = ["--json", str(stats), "--session", str(session)]
    result = chat("--chat", "-n", "12", *files, lines=f"Hello\n{TOO_LONG}\nWho was it?\n")
    assert result.returncode == 1
    assert result.stderr.startswith("runner: the message has ")
    assert result.stderr.count(REFUSAL) == 1 and OUTGROWN not in result.stderr
    assert result.stdout == chat("--chat", "-n", "12", lines="Hello\nWho was it?\n").stdout
    assert json.loads(stats.read_text())["generated_tokens"] == 24
    assert [content for role, content in messages_of(session) if role == "user"] == [
        "Hello",
        "Who was it?",
    ]


def test_a_system_prompt_that_fills_the_context_is_refused_at_once(
    chat: Chat, tmp_path: Path
) -> None:
    session = tmp_path / "chat.session"
    options = ["--chat", "-n", "12", "--session", str(session)]
    chat(*options, lines="Hello\n")
    before = session.read_bytes()
    result = chat(*options, "--system", TOO_LONG, lines="Hello\n")
    assert (result.returncode, result.stdout) == (2, "")
    assert re.fullmatch(
        r"runner: the system prompt has \d+ tokens, but the model's context holds 256: shorten it, "
        r"or export with a larger --max-context-len, up to the model's own limit\n",
        result.stderr,
    )
    assert session.read_bytes() == before
    # One that leaves a little room refuses longer lines.
    result = chat("--chat", "-n", "3", "--system", "a " * 200, lines=f"Hi\n{'a ' * 60}\nHi\n")
    assert result.returncode == 1
    assert result.stderr.count("runner: the system prompt and the message together have ") == 1
    assert result.stderr.count(REFUSAL) == 1 and len(result.stdout.splitlines()) == 2


def test_a_system_prompt_that_the_template_does_not_take(
    cpp_build: Path, one_layer_checkpoint: Path, tmp_path: Path
) -> None:
    model = export_chat_model(one_layer_checkpoint, tmp_path, WITHOUT_SYSTEM)
    command: list[str | Path] = [cpp_build / "runner", model, "--chat", "-n", "3"]
    for options, code in [(["--system", "Be nice."], 2), ([], 0)]:
        result = subprocess.run(
            [*command, *options],
            input="Hello\n/reset\n",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert result.returncode == code
        refused = (
            "runner: the model's chat template does not support a system message: leave it out\n"
        )
        assert (result.stderr == refused) == (code == 2) == (result.stdout == "")


def test_at_a_terminal_a_line_too_long_is_not_a_failure(cpp_build: Path, chat_pte: Path) -> None:
    ours, terminal = pty.openpty()
    os.write(ours, f"{TOO_LONG}\n\x04".encode())
    command: list[str | Path] = [cpp_build / "runner", chat_pte, "--chat"]
    result = subprocess.run(command, stdin=terminal, capture_output=True, text=True, timeout=60)
    os.close(ours)
    os.close(terminal)
    assert result.returncode == 0 and REFUSAL in result.stderr


def test_a_chat_without_a_line_has_no_reason_to_stop(chat: Chat, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    assert chat("--chat", "--json", str(stats)).returncode == 0
    values = json.loads(stats.read_text())
    assert (values["stop_reason"], values["generated_tokens"]) == ("", 0)


def test_interrupting_an_answer_continues_with_the_next_line(
    cpp_build: Path, chat_pte: Path, tmp_path: Path
) -> None:
    stats = tmp_path / "stats.json"
    command = [cpp_build / "runner", chat_pte, "--chat", "-n", "12", "--json", stats]
    result = interrupt(command, lines="Once upon a time\nWho was it?\n")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count(b"runner: interrupted\n") == 1
    assert json.loads(stats.read_text())["stop_reason"] == "length"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_to_end_keeps_the_conversation(
    cpp_build: Path, chat_pte: Path, tmp_path: Path, number: signal.Signals
) -> None:
    session, stats = tmp_path / "chat.session", tmp_path / "stats.json"
    command: list[str | Path] = [cpp_build / "runner", chat_pte, "--chat", "--session", session]
    lines = "Once upon a time\nWho was it?\n"
    result = interrupt([*command, "--json", stats], lines, number)
    assert result.returncode == 128 + number, result.stderr
    assert [role for role, _ in messages_of(session)] == ["user", "assistant"]
    assert json.loads(stats.read_text())["stop_reason"] == "interrupted"


def test_interrupting_the_only_turn_is_said_by_the_exit_code(
    cpp_build: Path, chat_pte: Path
) -> None:
    result = interrupt([cpp_build / "runner", chat_pte, "--chat", "-p", "Once upon a time"])
    assert result.returncode == 130, result.stderr


def test_reset_starts_again_after_the_system_prompt(chat: Chat, tmp_path: Path) -> None:
    session = tmp_path / "chat.session"
    system = ["--chat", "--system", "Be nice.", "-n", "12", "--threads", "1"]
    alone = chat(*system, lines="Who was it?\n")
    lines = "\n".join([*LINES, "/reset", "Who was it?"])
    result = chat(*system, "--session", str(session), lines=lines + "\n")
    assert result.returncode == 0
    assert result.stdout.endswith(alone.stdout)
    assert result.stderr.count("runner: a new conversation starts\n") == 1
    assert messages_of(session) == [
        ("system", "Be nice."),
        ("user", "Who was it?"),
        ("assistant", alone.stdout.removesuffix("\n")),
    ]
    # Whoever outgrows the context again is told again.
    again = "\n".join([*LINES, "/reset", *LINES])
    result = chat(*system, lines=again + "\n")
    assert result.stderr.count(OUTGROWN) == 2


def test_nothing_of_a_reset_conversation_is_kept(chat: Chat, tmp_path: Path) -> None:
    """The cache keeps the system prompt, which the next turn need not compute."""
    session, stats = tmp_path / "chat.session", tmp_path / "stats.json"
    options = ["--chat", "--system", "Be nice.", "-n", "12", "--session", str(session)]
    chat(*options, lines="Tell me a secret\n/reset\n")
    assert messages_of(session) == [("system", "Be nice.")]
    (token_count,) = struct.unpack_from("<I", session.read_bytes(), 12)
    assert chat(*options, "--json", str(stats), "-p", "Hello").returncode == 0
    assert json.loads(stats.read_text())["cached_tokens"] == token_count > 5


UNKNOWN = ["/rest", "/RESET", "/", "/ reset", "/usr/bin/env is what?"]


def test_what_starts_with_a_slash_is_a_command(chat: Chat, tmp_path: Path) -> None:
    session = tmp_path / "chat.session"
    lines = [
        "Hello",
        *UNKNOWN,
        "/reset it",
        "/help",
        "//usr is what?",
        " /x",
        "/exit \r",
        "Not said",
    ]
    result = chat("--chat", "-n", "5", "--session", str(session), lines="\n".join(lines) + "\n")
    assert result.returncode == 1
    said = [content for role, content in messages_of(session) if role == "user"]
    assert said == ["Hello", "/usr is what?", " /x"]
    for line in UNKNOWN:
        assert f"runner: '{line.split()[0]}' is not a command: /help lists" in result.stderr
    assert "runner: the command /reset takes no argument: write it alone" in result.stderr
    assert "\n  /reset  start a new conversation; the system prompt stays\n" in result.stderr
    assert "/image" not in result.stderr, "it reads no pictures"
    assert chat("--chat", lines="/help\n/reset\n/exit\n").returncode == 0
    assert chat("--chat", "-p", "/exit", "-n", "5").stdout != "\n"  # with -p, a message like any


def test_few_weights_in_huge_pages_have_a_size(chat: Chat) -> None:
    told = chat("--chat", "-p", "Hello", "-n", "1", "--huge-pages").stderr
    assert re.search(r"weights in huge pages \(\d+ [kM]B of [1-9]\d* [kM]B\)", told), told


@pytest.mark.parametrize(("where", "reason"), [("<&-", "Bad file descriptor"), ("</", "Is a dir")])
def test_input_that_cannot_be_read_is_told(
    cpp_build: Path, chat_pte: Path, where: str, reason: str
) -> None:
    command = ["bash", "-c", f'"$@" {where}', "bash", cpp_build / "runner", chat_pte, "--chat"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 2
    assert told.stderr.startswith(f"runner: cannot read standard input: {reason}")


def test_a_chat_at_a_terminal_says_where_its_commands_are(cpp_build: Path, chat_pte: Path) -> None:
    ours, terminal = pty.openpty()
    os.write(ours, b"/what\n/exit\n")
    command: list[str | Path] = [cpp_build / "runner", chat_pte, "--chat"]
    result = subprocess.run(command, stdin=terminal, capture_output=True, text=True, timeout=60)
    os.close(ours)
    os.close(terminal)
    assert result.returncode == 0
    assert result.stderr.startswith("runner: each line is a message; /help lists the commands\n> ")
