"""The CPU delegate's key/value cache as a value: kept in a file, truncated, restored, forked."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import Runner, RunnerError

STORY = "Once upon a time, there was a little girl named Lily. She loved to play"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tmp_path / "story.session"


def run(
    build: Path, model: Path, prompt: str, *options: str | Path
) -> subprocess.CompletedProcess[str]:
    command = [build / "runner", model, "-p", prompt, "-n", "20", "--threads", "1", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def said(
    build: Path, model: Path, prompt: str, *options: str | Path, stats: Path
) -> tuple[str, int, int]:
    """The text, and how many of the prompt's tokens were computed and how many cached."""
    result = run(build, model, prompt, *options, "--json", stats)
    assert result.returncode == 0, result.stderr
    values = json.loads(stats.read_text())
    return result.stdout, values["prompt_tokens"], values["cached_tokens"]


def refused(build: Path, model: Path, session: Path, *options: str | Path) -> str:
    before = session.read_bytes()
    result = run(build, model, STORY, "--session", session, *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert session.read_bytes() == before
    return result.stderr.removeprefix("runner: ").rstrip("\n")


def test_what_it_runs_with(cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    result = run(cpp_build, stories_cpu_pte, "Once", "--json", stats)
    values = json.loads(stats.read_text())
    assert (values["delegate"], values["threads"]) == ("ThimbleCpuBackend", 1)
    assert "1 thread, float16 cache of 512 positions" in values["runs_with"]
    assert result.stderr.endswith(values["runs_with"] + "\n")


def test_the_float_model_generates_the_golden_text(
    cpp_build: Path, stories_cpu_float_pte: Path, shared_data: Path
) -> None:
    golden = (shared_data / "stories260K" / "golden.txt").read_text(encoding="utf-8")
    for threads in ["1", "2", "3"]:
        options = ["-n", "256", "--threads", threads]
        assert run(cpp_build, stories_cpu_float_pte, "", *options).stdout == golden


COUNT_THREADS = """
import os, sys, time
from runtime import Runner
def count():
    return len(os.listdir("/proc/self/task"))
before, deadline = count(), time.monotonic() + 60
runner = Runner(sys.argv[1], threads=3)
list(runner.generate("Once", max_new_tokens=3))
while count() - before > 2 and time.monotonic() < deadline:
    time.sleep(0.01)  # the thread that generated is on its way out
print(count() - before)
"""


def test_no_thread_is_started_that_is_not_used(cpp_build: Path, stories_cpu_pte: Path) -> None:
    """The caller and two more; no pool of ExecuTorch's where the delegate runs all."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", COUNT_THREADS, str(stories_cpu_pte)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert (result.stdout, result.stderr) == ("2\n", "")


def test_a_prompt_is_computed_once(
    cpp_build: Path, stories_cpu_pte: Path, session: Path, tmp_path: Path
) -> None:
    stats = tmp_path / "stats.json"
    whole = said(cpp_build, stories_cpu_pte, STORY, stats=stats)
    first = said(cpp_build, stories_cpu_pte, STORY, "--session", session, stats=stats)
    assert first == whole
    text, computed, cached = said(
        cpp_build, stories_cpu_pte, STORY, "--session", session, stats=stats
    )
    assert (text, computed) == (whole[0], 1)  # the last token: its logits are wanted
    assert computed + cached == whole[1]
    # What the model itself said is in the cache as well.
    longer = STORY + text
    expected = said(cpp_build, stories_cpu_pte, longer, stats=stats)
    text, computed, cached = said(
        cpp_build, stories_cpu_pte, longer, "--session", session, stats=stats
    )
    assert text == expected[0] and computed + cached == expected[1] and cached > whole[1]
    assert set(os.listdir(tmp_path)) == {"stats.json", "story.session"}


def test_another_prompt_keeps_what_is_common(
    cpp_build: Path, stories_cpu_pte: Path, session: Path, tmp_path: Path
) -> None:
    stats = tmp_path / "stats.json"
    run(cpp_build, stories_cpu_pte, STORY, "--session", session)
    other = STORY.replace("Lily", "Sue")
    expected = said(cpp_build, stories_cpu_pte, other, stats=stats)
    text, computed, cached = said(
        cpp_build, stories_cpu_pte, other, "--session", session, stats=stats
    )
    assert text == expected[0] and computed + cached == expected[1]
    assert 5 < cached < expected[1] - 5


def test_a_session_goes_to_other_kernels(
    cpp_build: Path,
    stories_cpu_pte: Path,
    session: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stats = tmp_path / "stats.json"
    whole = said(cpp_build, stories_cpu_pte, STORY, "--session", session, stats=stats)
    monkeypatch.setenv("THIMBLE_KERNELS", "scalar")
    text, computed, _ = said(cpp_build, stories_cpu_pte, STORY, "--session", session, stats=stats)
    assert (text, computed) == (whole[0], 1)


def test_damaged_sessions_are_refused(
    cpp_build: Path, stories_cpu_pte: Path, session: Path
) -> None:
    run(cpp_build, stories_cpu_pte, STORY, "--session", session)
    data = session.read_bytes()
    damaged = (
        f"the session {session} is damaged: name another file, or delete it to start a new session"
    )
    for position in [12, 20, 30, 36, 44, 48, 100, len(data) // 2, len(data) - 1]:
        flipped = bytearray(data)
        flipped[position] ^= 0x20
        session.write_bytes(flipped)
        assert refused(cpp_build, stories_cpu_pte, session) == damaged
    for size in [48, 60, len(data) - 1]:
        session.write_bytes(data[:size])
        assert refused(cpp_build, stories_cpu_pte, session) == damaged
    session.write_bytes(data + b"x")
    assert refused(cpp_build, stories_cpu_pte, session) == damaged
    for foreign in [b"", data[:20], b"PK\x03\x04" * 100]:
        session.write_bytes(foreign)
        assert refused(cpp_build, stories_cpu_pte, session) == (
            f"{session} is not a session that this runner saved: name another file"
        )
    session.write_bytes(data[:8] + b"\x05" + data[9:])
    assert refused(cpp_build, stories_cpu_pte, session) == (
        f"{session} is a session of version 5, and this runner reads versions 1 to 4: name "
        "another file, or delete it to start a new session"
    )


def test_a_session_of_another_model_is_refused(
    cpp_build: Path, stories_cpu_pte: Path, stories_cpu_float_pte: Path, session: Path
) -> None:
    run(cpp_build, stories_cpu_float_pte, STORY, "--session", session)
    assert refused(cpp_build, stories_cpu_pte, session) == (
        f"the session {session} belongs to another model file: name another session, or delete it"
    )


def test_a_session_of_another_type_of_cache_is_refused(
    cpp_build: Path, stories_cpu_pte: Path, session: Path
) -> None:
    run(cpp_build, stories_cpu_pte, STORY, "--session", session)
    sentence = refused(cpp_build, stories_cpu_pte, session, "--kv-cache", "float32")
    assert sentence.startswith(f"cannot restore the session {session}: ")


def test_sessions_are_for_the_cpu_delegate(
    cpp_build: Path, stories_pte: Path, session: Path, tmp_path: Path
) -> None:
    result = run(cpp_build, stories_pte, STORY, "--session", session)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"runner: {stories_pte} has a key/value cache that cannot be saved: export it with "
        "--delegate cpu\n"
    )
    assert not session.exists()
    missing = tmp_path / "none" / "x.session"
    result = run(cpp_build, stories_pte, STORY, "--session", missing)
    assert result.stderr == f"runner: cannot write {missing}: No such file or directory\n"


def test_a_file_that_cannot_be_written_takes_no_other_with_it(
    cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    """A name that leaves no room for the one under which a file is first written."""
    files = {name: tmp_path / name for name in ("session", "etdump", "json")}
    text = run(cpp_build, stories_cpu_pte, STORY).stdout
    for failing in files:
        unwritable = tmp_path / (failing[0] * 255)
        paths = {**files, failing: unwritable}
        options = [part for name, path in paths.items() for part in (f"--{name}", path)]
        result = run(cpp_build, stories_cpu_pte, STORY, *options)
        assert (result.returncode, result.stdout) == (1, text)
        assert result.stderr.count(f"runner: cannot write {unwritable}: File name too long\n") == 1
        assert set(tmp_path.iterdir()) == {
            path for path in files.values() if path != files[failing]
        }
        for path in tmp_path.iterdir():
            assert path.stat().st_size > 0
            path.unlink()


@pytest.mark.parametrize("exists", [True, False])
def test_a_session_behind_a_link_is_written_where_it_leads(
    cpp_build: Path, stories_cpu_pte: Path, session: Path, tmp_path: Path, exists: bool
) -> None:
    """A link to a link, from one directory to another."""
    target = tmp_path / "elsewhere" / "target"
    target.parent.mkdir()
    if exists:
        run(cpp_build, stories_cpu_pte, "Once", "--session", target)
        target.chmod(0o600)
    before = target.read_bytes() if exists else b""
    middle = tmp_path / "middle"
    middle.symlink_to("elsewhere/target")
    session.symlink_to(middle)
    assert run(cpp_build, stories_cpu_pte, STORY, "--session", session).returncode == 0
    assert session.is_symlink() and middle.is_symlink()
    assert len(target.read_bytes()) > len(before)
    assert not exists or target.stat().st_mode & 0o777 == 0o600  # it keeps who may read it
    assert os.listdir(target.parent) == ["target"]


def test_links_in_a_circle(
    cpp_build: Path, stories_cpu_pte: Path, session: Path, tmp_path: Path
) -> None:
    session.symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(session)
    result = run(cpp_build, stories_cpu_pte, STORY, "--session", session)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"runner: cannot write {session}: Too many levels of symbolic links\n"


@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_what_can_be_no_session(
    cpp_build: Path, stories_cpu_pte: Path, runner: Runner, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / kind
    {
        "pipe": lambda: os.mkfifo(path),
        "directory": path.mkdir,
        "device": lambda: path.symlink_to("/dev/null"),
    }[kind]()
    sentence = f"{path} is not a regular file, so it cannot store a session: name another file"
    result = run(cpp_build, tmp_path / "no.pte", STORY, "--session", path)  # before it is loaded
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"runner: {sentence}\n"
    for call in (runner.save, runner.restore):
        with pytest.raises(RunnerError) as caught:
            call(path)
        assert str(caught.value) == sentence


@pytest.fixture
def runner(cpp_build: Path, stories_cpu_pte: Path) -> Iterator[Runner]:
    with Runner(stories_cpu_pte, threads=1) as runner:
        yield runner


def answer(runner: Runner, prompt: str, count: int = 12) -> str:
    return "".join(runner.generate(prompt, max_new_tokens=count))


def test_python_saves_and_restores(
    cpp_build: Path, stories_cpu_pte: Path, runner: Runner, session: Path
) -> None:
    text = answer(runner, STORY)
    length = runner.length
    runner.save(session)
    with Runner(stories_cpu_pte, threads=1) as other:
        other.restore(session)
        assert other.length == length
        assert answer(other, STORY) == text
        assert other.stats["prompt_tokens"] == 1
        session.write_bytes(session.read_bytes()[:-1])
        with pytest.raises(RunnerError, match="is damaged: name another file"):
            other.restore(session)
        assert other.length == length
        with pytest.raises(RunnerError, match="cannot open the session .*: No such file"):
            other.restore(session.parent / "none")


def test_neither_the_model_nor_another_file_is_replaced(
    cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    model, link, notes = (tmp_path / name for name in ("model.pte", "link", "notes.txt"))
    shutil.copy(stories_cpu_pte, model)
    link.symlink_to(model)
    notes.write_text("dear")
    with Runner(model, threads=1) as runner:
        answer(runner, STORY, 2)
        runner.start_recording()
        answer(runner, STORY, 2)
        for name in (model, link):
            for call in (runner.save, runner.stop_recording):
                with pytest.raises(RunnerError, match="is the model's own file: name another"):
                    call(name)
        runner.stop_recording(tmp_path / "run.etdp")
        with pytest.raises(RunnerError, match="is not a session that this runner saved"):
            runner.save(notes)
    assert model.read_bytes() == stories_cpu_pte.read_bytes() and notes.read_text() == "dear"


@pytest.mark.parametrize("lines", [None, "Once\nTwice\n"], ids=["prompt", "chat"])
def test_a_reader_that_goes_costs_no_file(
    cpp_build: Path, chat_pte: Path, tmp_path: Path, lines: str | None
) -> None:
    stats, session = tmp_path / "stats.json", tmp_path / "a.session"
    files = ["--json", str(stats), "--session", str(session)]
    talk = ["-p", "Once"] if lines is None else ["--chat"]
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = subprocess.run(
        [cpp_build / "runner", chat_pte, *talk, *files],
        input=lines,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(write_end)
    assert result.returncode == 1
    assert "standard output" not in result.stderr
    assert stats.exists() and session.exists()


def test_forks_go_their_own_ways(runner: Runner) -> None:
    endings = [" with her mom", " in the park", " with a big dog"]
    alone = {}
    for ending in endings:
        runner.truncate(0)
        alone[ending] = answer(runner, STORY + ending)
    runner.truncate(0)
    answer(runner, STORY, 1)
    forks = {ending: runner.fork() for ending in endings}
    # In turns, twice: none computes what it said before, and none hears of the others.
    for ending, fork in forks.items():
        assert answer(fork, STORY + ending) == alone[ending]
        assert fork.stats["cached_tokens"] == runner.length
    for ending, fork in reversed(forks.items()):
        assert answer(fork, STORY + ending) == alone[ending]
        assert fork.stats["prompt_tokens"] == 1
    for fork in forks.values():
        fork.close()
    assert answer(runner, STORY + endings[0]) == alone[endings[0]]


def test_a_fork_outlives_its_runner(cpp_build: Path, stories_cpu_pte: Path) -> None:
    with Runner(stories_cpu_pte, threads=1) as runner:
        text = answer(runner, STORY)
        fork = runner.fork()
        length = runner.length
    assert fork.length == length
    assert answer(fork, STORY) == text
    fork.close()


def test_one_fork_at_a_time(runner: Runner) -> None:
    answer(runner, "Once", 2)
    fork = runner.fork()
    pieces = fork.generate("Once")
    next(pieces)
    busy = "this Runner or a fork of it is generating already: finish or close its iterator"
    for call in (lambda: runner.truncate(0), runner.fork, lambda: answer(runner, "Once")):
        with pytest.raises(RunnerError, match=busy):
            call()
    pieces.close()
    assert answer(runner, "Once", 3)
    fork.close()


def test_forks_are_freed(runner: Runner) -> None:
    """A thousand caches of 80 kB each, were they kept, are more than this process may grow by."""
    answer(runner, STORY)
    resident = _resident_bytes()
    for _ in range(1000):
        runner.fork().close()
    assert _resident_bytes() - resident < 20e6


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
