"""Profiles of a program that is running already: started, stopped, bounded, counted."""

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.chats import export_chat_model

from quant.scheme import Scheme
from runtime import Recording, Runner, RunnerError

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<' + message['content'] + '>\\n' }}"
    "{% endfor %}"
)
ANSWER = 20  # tokens, and as many calls of the model: the prompt's, and one for each but the last


@pytest.fixture(scope="module")
def runner(cpp_build: Path, stories_cpu_pte: Path) -> Iterator[Runner]:
    with Runner(stories_cpu_pte, threads=2) as runner:
        yield runner


@pytest.fixture(scope="module")
def chat_pte(one_layer_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a chat template, for the CPU delegate; what it says is nonsense."""
    directory = tmp_path_factory.mktemp("chat")
    return export_chat_model(one_layer_checkpoint, directory, TEMPLATE, Scheme("rtn4"), 512)


def answer(runner: Runner, tokens: int = ANSWER) -> str:
    runner.truncate(0)
    return "".join(runner.generate("Once upon a time", max_new_tokens=tokens))


def blocks(path: Path) -> list[tuple[str, list]]:
    """The names of an ETDump's blocks but those of facts, and the events of each: name, id, start,
    end in ns."""
    from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

    found = []
    for block in deserialize_from_etdump_flatcc(path.read_bytes()).run_data:
        if block.name.startswith("fact "):
            assert not block.events
            continue
        events = [event.profile_event for event in block.events or []]
        found.append((block.name, [event for event in events if event is not None]))
    return found


def names(path: Path) -> list[str]:
    return [name for name, _ in blocks(path)]


def test_answers_between_start_and_stop(runner: Runner, tmp_path: Path) -> None:
    alone = answer(runner)
    assert (runner.stats["recorded_calls"], runner.stats["dropped_calls"]) == (0, 0)
    runner.start_recording()
    assert answer(runner) == alone
    assert runner.stats["recorded_calls"] == ANSWER
    recording = runner.stop_recording(tmp_path / "run.etdp")
    assert answer(runner) == alone
    assert runner.stats["recorded_calls"] == 0
    assert recording == Recording(tmp_path / "run.etdp", ANSWER, 0)
    assert names(recording.path) == ["prefill 5"] + ["decode 1"] * (ANSWER - 1)
    assert [path.name for path in tmp_path.iterdir()] == ["run.etdp"]


def test_a_second_recording_knows_nothing_of_the_first(runner: Runner, tmp_path: Path) -> None:
    for name, tokens in [("one", 7), ("two", 3)]:
        runner.start_recording()
        answer(runner, tokens)
        recording = runner.stop_recording(tmp_path / name)
        assert recording.calls == tokens == len(names(recording.path))


def test_in_the_middle_of_an_answer(runner: Runner, tmp_path: Path) -> None:
    """From the thread that reads the answer, while another computes it. The answer may end before
    the recording begins, or before five of its calls are recorded: then another one is tried."""
    for seed in range(1000):
        runner.truncate(0)
        pieces = runner.generate("", temperature=50.0, seed=seed)
        next(pieces)
        runner.start_recording()
        before = runner.length
        last = -1
        while last < runner.length < before + 5:
            last = runner.length
            time.sleep(0.01)
        recording = runner.stop_recording(tmp_path / "run.etdp")
        list(pieces)
        stats = runner.stats
        if 5 <= recording.calls < int(stats["generated_tokens"]):
            break
    assert stats["recorded_calls"] == recording.calls >= 5
    assert recording.dropped_calls == 0
    assert names(recording.path) == ["decode 1"] * recording.calls


def test_events_lie_within_their_calls(runner: Runner, tmp_path: Path) -> None:
    """Calls follow one another, each around its events: times of several calls reconcile."""
    runner.start_recording()
    answer(runner)
    recording = runner.stop_recording(tmp_path / "run.etdp")
    last = 0
    per_call = set()
    for _, events in blocks(recording.path):
        (call,) = [event for event in events if event.name == "Method::execute"]
        (delegate,) = [event for event in events if event.name == "DELEGATE_CALL"]
        inside = [event for event in events if event.delegate_debug_id_int != -1]
        assert last < call.start_time <= delegate.start_time
        assert delegate.end_time <= call.end_time
        at = delegate.start_time
        for event in inside:  # one after the other
            assert at <= event.start_time <= event.end_time
            at = event.end_time
        assert at <= delegate.end_time
        spent = sum(event.end_time - event.start_time for event in inside)
        assert 0 < spent <= delegate.end_time - delegate.start_time
        per_call.add(len(inside))
        last = call.end_time
    assert len(per_call) == 1  # each call reports every operator


@pytest.mark.parametrize("kept", [1, 8, ANSWER])
def test_what_the_bound_of_calls_drops_is_counted(
    runner: Runner, tmp_path: Path, kept: int
) -> None:
    runner.start_recording(max_calls=kept)
    answer(runner)
    answer(runner, 3)
    recording = runner.stop_recording(tmp_path / "run.etdp")
    dropped = ANSWER + 3 - kept
    assert (recording.calls, recording.dropped_calls) == (kept, dropped)
    assert names(recording.path) == (
        ["prefill 5"] + ["decode 1"] * (kept - 1) + [f"dropped {dropped}"]
    )
    stats = runner.stats
    assert (stats["recorded_calls"], stats["dropped_calls"]) == (0, 3)


def test_the_bound_of_bytes(runner: Runner, tmp_path: Path) -> None:
    """Asked before each call, of an estimate that is never below the file's size: so the file
    exceeds the bound by one call at most."""
    sizes = {}
    for bound in [1, 20_000, 40_000]:
        runner.start_recording(max_calls=1000, max_bytes=bound)
        answer(runner)
        recording = runner.stop_recording(tmp_path / f"{bound}.etdp")
        assert recording.calls + recording.dropped_calls == ANSWER
        assert recording.dropped_calls > 0
        sizes[bound] = recording.path.stat().st_size
        per_call = sizes[1]
        assert sizes[bound] < bound + per_call
    assert sizes[40_000] > 0.6 * 40_000  # and the estimate is a close one


def test_forks_are_recorded_with_their_model(runner: Runner, tmp_path: Path) -> None:
    answer(runner, 4)
    runner.start_recording()
    with runner.fork() as fork:
        list(fork.generate("Once upon a time", max_new_tokens=6))
        assert fork.stats["recorded_calls"] == 6
        recording = fork.stop_recording(tmp_path / "run.etdp")
    assert recording.calls == 6


def test_starting_twice_and_stopping_without_a_start(runner: Runner, tmp_path: Path) -> None:
    path = tmp_path / "run.etdp"
    with pytest.raises(RunnerError) as caught:
        runner.stop_recording(path)
    assert str(caught.value) == "no recording is running: start one first"
    runner.start_recording()
    with pytest.raises(RunnerError) as caught:
        runner.start_recording()
    assert str(caught.value) == "a recording is already running: stop it first"
    with pytest.raises(RunnerError) as caught:
        runner.stop_recording(path)
    assert str(caught.value) == (f"cannot write {path}: the model was not called since the start")
    assert not path.exists()


def test_a_path_that_cannot_be_written_leaves_the_recording_on(
    runner: Runner, tmp_path: Path
) -> None:
    runner.start_recording()
    answer(runner, 2)
    with pytest.raises(RunnerError, match="cannot write .*none/run.etdp: No such file"):
        runner.stop_recording(tmp_path / "none" / "run.etdp")
    assert runner.stop_recording(tmp_path / "run.etdp").calls == 2


def test_bounds_out_of_range_and_a_closed_runner(runner: Runner, stories_cpu_pte: Path) -> None:
    with pytest.raises(RunnerError, match="max_calls is 0, but must be from 1"):
        runner.start_recording(max_calls=0)
    with pytest.raises(RunnerError, match="max_bytes is 0, but must be from 1 to 1073741824"):
        runner.start_recording(max_bytes=0)
    closed = Runner(stories_cpu_pte)
    closed.close()
    with pytest.raises(RunnerError, match="this Runner is closed: load the model again"):
        closed.start_recording()


def test_xnnpack_as_well(cpp_build: Path, stories_pte: Path, tmp_path: Path) -> None:
    with Runner(stories_pte, threads=1) as runner:
        alone = answer(runner, 5)
        runner.start_recording(max_calls=3)
        assert answer(runner, 5) == alone
        recording = runner.stop_recording(tmp_path / "run.etdp")
        assert answer(runner, 5) == alone
    assert (recording.calls, recording.dropped_calls) == (3, 2)
    found = blocks(recording.path)
    assert [name for name, _ in found] == ["prefill 5", "decode 1", "decode 1", "dropped 2"]
    for _, events in found[:-1]:
        assert "DELEGATE_CALL" in {event.name for event in events}
        assert any("#1" in (event.delegate_debug_id_str or "") for event in events)


@pytest.mark.filterwarnings("ignore:read_binary is deprecated:DeprecationWarning")
def test_executorchs_inspector_reads_it(runner: Runner, tmp_path: Path) -> None:
    from executorch.devtools import Inspector

    runner.start_recording(max_calls=4)
    answer(runner)
    recording = runner.stop_recording(tmp_path / "run.etdp")
    inspector = Inspector(etdump_path=str(recording.path))
    found = {block.name: block for block in inspector.event_blocks}
    assert {"prefill 5", "decode 1"} <= set(found)
    (call,) = [event for event in found["decode 1"].events if event.name == "Method::execute"]
    assert len(call.perf_data.raw) == 3


class Chatting:
    """A runner process that answers line by line, and is sent signals meanwhile."""

    def __init__(self, runner: Path, model: Path, directory: Path, *options: str) -> None:
        command: list[str | Path] = [runner, model, "--chat", "-n", str(ANSWER), *options]
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> "Chatting":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))

    def turn(self) -> None:
        """Has it answer, and returns once it has: every token that the model says is the end of a
        line, and so is what the runner writes after the last."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("Hello\n")
        self.process.stdin.flush()
        assert [self.process.stdout.readline() for _ in range(ANSWER + 1)] == ["\n"] * (ANSWER + 1)

    def wait_until_signals_are_kept(self) -> None:
        """SIGUSR1 ends a program that has only begun to start."""
        status = Path(f"/proc/{self.process.pid}/status")
        while not self._kept(status.read_text()) & 1 << (signal.SIGUSR1 - 1):
            assert self.process.poll() is None
            time.sleep(0.005)

    @staticmethod
    def _kept(status: str) -> int:
        """The mask of signals that wait for a thread to ask for them."""
        return next(
            int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk:")
        )

    def send(self, wanted: str) -> str:
        """SIGUSR1; the line with these words that it makes the runner say."""
        before = len(self.said)
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for line in self.said[before:]:
                if wanted in line:
                    return line
            time.sleep(0.005)
        raise AssertionError(f"no {wanted!r} in {self.said[before:]}")

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(timeout=30)
        self._listener.join(timeout=30)
        return code


@pytest.mark.check
def test_signals_record_a_running_program(cpp_build: Path, chat_pte: Path, tmp_path: Path) -> None:
    total = 0
    with Chatting(cpp_build / "runner", chat_pte, tmp_path, "--json", "stats.json") as chat:
        chat.turn()
        first = f"runner-{chat.process.pid}.etdp"
        for name in [first, f"{first}.2"]:
            said = chat.send("recording")
            assert said == f"runner: recording; another SIGUSR1 writes {name}"
            chat.turn()
            said = chat.send("holds")
            found = names(tmp_path / name)
            assert said == f"runner: {name} holds {len(found)} calls of the model"
            assert len(found) > 1 and all(re.fullmatch(r"(prefill|decode) \d+", n) for n in found)
            total += len(found)
            chat.turn()
        assert chat.end() == 0
    assert {path.name for path in tmp_path.iterdir()} == {first, f"{first}.2", "stats.json"}
    stats = json.loads((tmp_path / "stats.json").read_text(encoding="utf-8"))
    assert (stats["recorded_calls"], stats["dropped_calls"]) == (total, 0)
    assert stats["generated_tokens"] > total  # turns went by unrecorded


def test_a_signal_ends_what_etdump_began(cpp_build: Path, chat_pte: Path, tmp_path: Path) -> None:
    """And a recording that is still running at the end is written there."""
    with Chatting(cpp_build / "runner", chat_pte, tmp_path, "--etdump", "run.etdp") as chat:
        chat.turn()
        chat.send("runner: run.etdp holds ")
        chat.send("another SIGUSR1 writes run.etdp.2")
        chat.turn()
        assert chat.end() == 0
    load, *calls = names(tmp_path / "run.etdp")
    assert load == "Default"
    last = names(tmp_path / "run.etdp.2")
    assert chat.said[-1] == f"runner: run.etdp.2 holds {len(last)} calls of the model"
    both = len(calls) + len(last)
    assert chat.said[-2].endswith(f", recorded {both} of {both} calls")


def test_a_signal_while_nothing_happens(cpp_build: Path, chat_pte: Path, tmp_path: Path) -> None:
    """Before the first line, it records nothing, reports this, and continues."""
    with Chatting(cpp_build / "runner", chat_pte, tmp_path) as chat:
        chat.wait_until_signals_are_kept()
        chat.send("recording")
        said = chat.send("cannot write")
        assert said.endswith(".etdp: the model was not called since the start")
        chat.turn()
        assert chat.end() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_benchmark_records_each_measurement(
    cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    command: list[str | Path] = [
        cpp_build / "bench",
        stories_cpu_pte,
        "-p",
        "",
        "--etdump",
        tmp_path / "run.etdp",
    ]
    asked = "prefill 9\ndecode 9 3\n"
    result = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stdout.count("seconds") == 2
    assert names(tmp_path / "run.etdp") == ["decode 1"] * 3
