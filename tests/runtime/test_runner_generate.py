"""What the runner says: real weights, streamed, counted and repeatable."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.blocked_output import interrupt

from exporter.tokenizer import load_tokenizer
from runtime import Runner

Run = Callable[..., subprocess.CompletedProcess[bytes]]
CONTEXT = 512  # of stories260K
CONTEXT_FULL = (
    "runner: the context is full ({} tokens): the answer ends here; for longer ones, export with a "
    "larger --max-context-len, up to the model's own limit\n"
)


@pytest.fixture
def run(cpp_build: Path, stories_pte: Path) -> Run:
    def run_stories(*options: str) -> subprocess.CompletedProcess[bytes]:
        command: list[str | Path] = [cpp_build / "runner", stories_pte, *options]
        return subprocess.run(command, capture_output=True, timeout=60)

    return run_stories


@pytest.fixture
def stats(run: Run, tmp_path: Path) -> Callable[..., dict]:
    def stats_of(*options: str) -> dict:
        path = tmp_path / "stats.json"
        result = run(*options, "--json", str(path))
        assert result.returncode == 0, result.stderr
        return json.loads(path.read_text(encoding="utf-8"))

    return stats_of


def test_greedy_text_is_the_golden_text(run: Run, shared_data: Path) -> None:
    golden = (shared_data / "stories260K" / "golden.txt").read_bytes()
    for threads in ["1", "2"]:
        result = run("-p", "", "-n", "256", "--temperature", "0", "--threads", threads)
        assert result.returncode == 0
        assert result.stdout == golden


def test_a_prompt_is_prefilled_in_one_call_as_token_by_token(run: Run, shared_data: Path) -> None:
    golden = (shared_data / "stories260K" / "golden.txt").read_text(encoding="utf-8")
    prompt = golden[:200].rsplit(" ", 1)[0]
    result = run("-p", prompt, "-n", "40")
    assert golden.startswith(prompt + result.stdout.decode())


@pytest.mark.parametrize("form", [b"%s", b"%s\n", b"%s\r\n", b"\xef\xbb\xbf%s"], ids=str)
def test_a_prompt_of_a_file_is_its_text(run: Run, tmp_path: Path, form: bytes) -> None:
    """Without the mark before it, and the end of its line."""
    (tmp_path / "prompt.txt").write_bytes(form % b"Once upon")
    told = run("-f", str(tmp_path / "prompt.txt"), "-n", "4")
    assert told.stdout == run("-p", "Once upon", "-n", "4").stdout and told.returncode == 0


def test_a_healthy_run_prints_one_line_to_stderr(run: Run) -> None:
    result = run("-p", "Once upon a time", "-n", "5")
    lines = result.stderr.decode().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("runner: 5 prompt + 5 generated tokens, prefill ")
    for word in ["decode", "first token", "load", "peak memory", "thread"]:
        assert word in lines[0]


def test_text_and_statistics_in_one_pipe(cpp_build: Path, stories_pte: Path, run: Run) -> None:
    options = ["-p", "Once upon a time", "-n", "5"]
    alone = run(*options).stdout.decode()
    both = subprocess.run(
        [cpp_build / "runner", stories_pte, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert both.stdout.startswith(f"{alone}\nrunner: 5 prompt + 5 generated tokens")


def test_json_statistics(stats: Callable[..., dict], stories_pte: Path) -> None:
    values = stats("-p", "Once upon a time", "-n", "20", "--threads", "2")
    assert list(values) == [
        "model",
        "method",
        "delegate",
        "runs_with",
        "adapter",
        "threads",
        "load_s",
        "ttft_s",
        "prompt_tokens",
        "cached_tokens",
        "recomputed_tokens",
        "image_rows",
        "generated_tokens",
        "forced_tokens",
        "prefill_s",
        "prefill_tokens_per_s",
        "decode_s",
        "decode_tokens_per_s",
        "drafted_tokens",
        "accepted_tokens",
        "peak_memory_bytes",
        "recorded_calls",
        "dropped_calls",
        "end_token",
        "end_text",
        "incomplete",
        "left_out",
        "stop_reason",
    ]
    assert (values["model"], values["method"]) == (str(stories_pte), "forward")
    assert (values["threads"], values["generated_tokens"]) == (2, 20)
    assert (values["prompt_tokens"], values["cached_tokens"]) == (5, 0)
    assert (values["delegate"], values["runs_with"]) == ("XnnpackBackend", "")
    assert 0 < values["prefill_s"] <= values["ttft_s"]
    assert values["prefill_tokens_per_s"] == pytest.approx(5 / values["prefill_s"], rel=0.01)
    assert values["decode_tokens_per_s"] == pytest.approx(19 / values["decode_s"], rel=0.01)
    # Its own memory, not that of the process that started it, which holds torch.
    assert stories_pte.stat().st_size < values["peak_memory_bytes"] < 10**8
    assert 0 < values["load_s"]
    assert values["stop_reason"] == "length"


def test_a_model_path_with_quotes_is_valid_json(
    cpp_build: Path, stories_pte: Path, tmp_path: Path
) -> None:
    model = tmp_path / 'a "model"\\\n.pte'
    model.symlink_to(stories_pte)
    path = tmp_path / "stats.json"
    command: list[str | Path] = [cpp_build / "runner", model, "-p", "", "-n", "1", "--json", path]
    subprocess.run(command, check=True, capture_output=True)
    assert json.loads(path.read_text(encoding="utf-8"))["model"] == str(model)


def test_a_model_path_that_is_not_utf_8_is_valid_json(
    cpp_build: Path, stories_pte: Path, tmp_path: Path
) -> None:
    model = tmp_path / os.fsdecode(b"a \xff\xc3.pte")
    model.symlink_to(stories_pte)
    path = tmp_path / "stats.json"
    command: list[str | Path] = [cpp_build / "runner", model, "-p", "", "-n", "1", "--json", path]
    subprocess.run(command, check=True, capture_output=True)
    shown = f"{tmp_path}/a \ufffd\ufffd.pte"
    assert json.loads(path.read_text(encoding="utf-8"))["model"] == shown
    with Runner(model, threads=1) as runner:
        assert runner.stats["model"] == shown


def prompt_of(shared_data: Path, count: int) -> str:
    """A prompt that is `count` tokens long, BOS among them."""
    tokenizer = load_tokenizer(shared_data / "stories260K")
    text = "a" * 4
    while len(tokenizer.encode(text)) + 1 < count:
        text += " a"
    return text


def test_an_answer_ends_when_the_context_is_full(
    run: Run, stats: Callable[..., dict], shared_data: Path
) -> None:
    prompt = prompt_of(shared_data, CONTEXT - 2)
    values = stats("-p", prompt)
    assert values["stop_reason"] == "context_full"
    # The last token needs no room: it is never fed back.
    assert (values["prompt_tokens"], values["generated_tokens"]) == (CONTEXT - 2, 3)
    result = run("-p", prompt)
    assert result.returncode == 0
    assert CONTEXT_FULL.format(CONTEXT) in result.stderr.decode()


def test_a_prompt_longer_than_the_context_is_refused(run: Run) -> None:
    result = run("-p", "word " * CONTEXT)
    assert result.returncode == 2 and result.stdout == b""
    sentence = result.stderr.decode()
    assert sentence.startswith("runner: the prompt has ")
    assert sentence.endswith(
        f" tokens, but the model's context holds {CONTEXT}: shorten it, or export with a "
        "larger --max-context-len, up to the model's own limit\n"
    )


def test_a_prompt_that_just_fits(stats: Callable[..., dict], shared_data: Path) -> None:
    values = stats("-p", prompt_of(shared_data, CONTEXT))
    assert (values["prompt_tokens"], values["generated_tokens"]) == (CONTEXT, 1)
    assert values["stop_reason"] == "context_full"


def test_a_seed_repeats_and_another_differs(run: Run) -> None:
    options = ["-p", "Once", "-n", "60", "--temperature", "1", "--top-k", "50", "--top-p", "0.95"]
    first = run(*options, "--seed", "11").stdout
    assert run(*options, "--seed", "11").stdout == first
    assert run(*options, "--seed", "12").stdout != first
    assert run(*options).stdout != run(*options).stdout


def test_filters_that_leave_one_token_are_greedy(run: Run) -> None:
    greedy = run("-p", "Once", "-n", "40").stdout
    for option, value in [("--top-k", "1"), ("--top-p", "0"), ("--min-p", "1")]:
        assert run("-p", "Once", "-n", "40", "--temperature", "1", option, value).stdout == greedy


def test_text_is_streamed_in_complete_characters(run: Run) -> None:
    """At a high temperature a byte-fallback model writes cut and wrong UTF-8."""
    for seed in range(5):
        result = run("-p", "", "-n", "200", "--temperature", "50", "--seed", str(seed))
        result.stdout.decode("utf-8", "strict")


@pytest.mark.filterwarnings("ignore:read_binary is deprecated:DeprecationWarning")
def test_etdump_is_written(run: Run, tmp_path: Path) -> None:
    from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

    path = tmp_path / "run.etdp"
    result = run("-p", "Once", "-n", "4", "--etdump", str(path))
    assert result.returncode == 0
    dump = deserialize_from_etdump_flatcc(path.read_bytes())
    events = [event.profile_event for data in dump.run_data for event in data.events or []]
    names = {event.name for event in events if event is not None and event.name}
    assert "DELEGATE_CALL" in names
    assert any("custom_sdpa" in name for name in names)


def test_etdump_of_a_long_run_is_bounded(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.etdp"
    options = ["-p", "", "-n", "400", "--temperature", "5", "--seed", "1"]
    result = run(*options, "--etdump", str(path))
    assert f"runner: {path} holds the first 256 of " in result.stderr.decode()


def test_interrupting_ends_the_answer_and_keeps_what_there_is(
    cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    stats, session = tmp_path / "stats.json", tmp_path / "story.session"
    files: list[str | Path] = ["--json", stats, "--session", session]
    result = interrupt([cpp_build / "runner", stories_cpu_pte, "-p", "Once upon a time", *files])
    assert result.returncode == 130, result.stderr
    assert result.stderr.startswith(b"runner: interrupted\n")
    assert json.loads(stats.read_text())["stop_reason"] == "interrupted"
    assert session.read_bytes().startswith(b"THIMSESS")


def test_chat_without_a_template_is_refused(run: Run, stories_pte: Path) -> None:
    result = run("--chat", "-p", "Hello")
    assert result.returncode == 2
    assert result.stderr.decode() == (
        f"runner: {stories_pte} has no chat template: run it with -p instead of --chat, or export "
        "a checkpoint that has one\n"
    )
