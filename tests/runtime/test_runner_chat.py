"""Chatting: the template around each message, a cache that is not computed twice."""

import json
import os
import pty
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.blocked_output import interrupt
from support.exported import Quiet

from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

Chat = Callable[..., subprocess.CompletedProcess[str]]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<' + message['role'] + '> ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant> ' }}{% endif %}"
)


@pytest.fixture(scope="module")
def chat_pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """stories260K with a chat template it has never seen: what it says is nonsense, but greedy. For
    the CPU delegate, whose sessions can be kept."""
    directory = tmp_path_factory.mktemp("chat")
    checkpoint = shutil.copytree(shared_data / "stories260K", directory / "checkpoint")
    config = {"chat_template": TEMPLATE, "bos_token": "<s>", "eos_token": "</s>"}
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(config))
    options = ExportOptions(
        model=str(checkpoint),
        out=directory / "chat.pte",
        scheme=Scheme("none"),
        max_context_len=256,
        delegate="cpu",
    )
    return export_model(options, Quiet()).out


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


def test_a_full_context_ends_the_chat(chat: Chat) -> None:
    result = chat("--chat", "--temperature", "3", "--seed", "1", lines="Hello\n" * 60)
    assert result.returncode in (0, 1)
    full = "the context is full (256 tokens)" in result.stderr
    assert full or "but the model's context holds 256" in result.stderr


TOO_LONG = "word " * 300
REFUSAL = "but the model's context holds 256: shorten it"


def test_a_line_too_long_is_refused_and_the_chat_goes_on(chat: Chat, tmp_path: Path) -> None:
    stats, session = tmp_path / "stats.json", tmp_path / "chat.session"
    files = ["--json", str(stats), "--session", str(session)]
    result = chat("--chat", "-n", "12", *files, lines=f"Hello\n{TOO_LONG}\nWho was it?\n")
    assert result.returncode == 1
    assert result.stderr.startswith("runner: the prompt has ") and result.stderr.count(REFUSAL) == 1
    assert result.stdout == chat("--chat", "-n", "12", lines="Hello\nWho was it?\n").stdout
    assert json.loads(stats.read_text())["generated_tokens"] == 24
    assert session.read_bytes().startswith(b"THIMSESS")


def test_at_a_terminal_a_line_too_long_is_no_failure(cpp_build: Path, chat_pte: Path) -> None:
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


def test_interrupting_an_answer_goes_on_with_the_next_line(
    cpp_build: Path, chat_pte: Path, tmp_path: Path
) -> None:
    stats = tmp_path / "stats.json"
    command = [cpp_build / "runner", chat_pte, "--chat", "-n", "12", "--json", stats]
    result = interrupt(command, lines="Once upon a time\nWho was it?\n")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count(b"runner: interrupted\n") == 1
    assert json.loads(stats.read_text())["stop_reason"] == "length"


def test_interrupting_the_only_turn_is_said_by_the_exit_code(
    cpp_build: Path, chat_pte: Path
) -> None:
    result = interrupt([cpp_build / "runner", chat_pte, "--chat", "-p", "Once upon a time"])
    assert result.returncode == 130, result.stderr
