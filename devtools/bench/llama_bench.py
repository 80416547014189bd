"""llama-bench of llama.cpp, or of a program with the same command line, as an engine; for several
sequences at once, llama-batched-bench beside it."""

import json
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from devtools.bench.workload import FIRST_PROMPT, FULL_CONTEXT, Workload
from devtools.errors import BadRequest, DevtoolsError

_POLL_S = 0.005
_ATTEMPTS = 5  # of llama-batched-bench, whose log may lose its last lines when it ends
_CACHE_STEP = 256  # positions that llama.cpp rounds a sequence's cache up to


class LlamaBench:
    """One GGUF file under llama-bench. Every sample is a process of its own, whose loading and
    warming up are not counted.

    Args:
        program: llama-bench.
        model: the GGUF file.
    """

    def __init__(self, name: str, program: Path, model: Path) -> None:
        self.name = name
        self.model = model
        self.max_context_len: int | None = None  # its cache is made as large as the work needs
        self._program = program
        self._threads = 0

    def open(self, threads: int, deepest: int) -> None:
        self._threads = threads

    def close(self) -> None:
        pass

    def measure(self, workload: Workload) -> float:
        if workload.kind == "sequences":
            return self._measure_sequences(workload)
        if workload.kind == "decode":
            work = ["-p", "0", "-n", str(workload.tokens)]
        else:
            work = ["-p", str(workload.tokens), "-n", "0"]
        repeats = ["-r", str(workload.calls), "-d", str(workload.depth)]
        run = self._run(self._threads, [*work, *repeats])
        (test,) = run.tests
        return sum(test["samples_ns"]) / 1e9

    def _measure_sequences(self, workload: Workload) -> float:
        """Seconds of decoding, without the prompts. It draws its tokens at random, so that none is
        chosen by the logits."""
        program = self._program.with_name("llama-batched-bench")
        if not program.is_file():
            raise DevtoolsError(
                f"{program} is missing but needed for several conversations; build it beside "
                f"{self._program.name}."
            )
        context = -(-(workload.depth + workload.tokens) // _CACHE_STEP) * _CACHE_STEP
        command: list[str | Path] = [program, "-m", self.model, "--output-format", "jsonl"]
        for option, value in {
            "-t": self._threads,
            "-tb": self._threads,
            "-c": context * workload.sequences,
            "-npp": workload.depth,
            "-ntg": workload.tokens,
            "-npl": workload.sequences,
        }.items():
            command += [option, str(value)]
        for _ in range(_ATTEMPTS - 1):
            try:
                return float(_Run(command, program.name).tests[0]["t_tg"])
            except _SaidNothing:
                pass
        return float(_Run(command, program.name).tests[0]["t_tg"])

    def start(self, threads: int) -> tuple[float, float]:
        work = ["-p", str(FIRST_PROMPT), "-n", "0", "-r", "1", "--no-warmup"]
        run = self._run(threads, work)
        (test,) = run.tests
        first = run.first_line_s
        return first - sum(test["samples_ns"]) / 1e9, first

    def peak_memory(self, threads: int) -> int | None:
        work = ["-p", str(FULL_CONTEXT), "-n", "4", "-r", "1", "--no-warmup"]
        return self._run(threads, work).peak_bytes

    def _run(self, threads: int, arguments: list[str]) -> "_Run":
        options = ["-t", str(threads), "-o", "jsonl", *arguments]
        command: list[str | Path] = [self._program, "-m", self.model, *options]
        return _Run(command, self.name)


class _SaidNothing(DevtoolsError):
    """A process ended well and without a line of JSON."""


class _Run:
    """One process of llama-bench, from its start to its end.

    Attributes:
        tests: its lines of JSON.
        first_line_s: seconds from its start to the first of them.
        peak_bytes: the most memory it held; None if the system does not report it.
    """

    def __init__(self, command: list[str | Path], name: str) -> None:
        self.tests: list[dict[str, Any]] = []
        self.first_line_s = 0.0
        start = time.perf_counter()
        with tempfile.TemporaryFile() as stderr:
            try:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)
            except OSError as error:
                raise BadRequest(f"{command[0]} cannot be started ({error.strerror}).") from None
            assert process.stdout is not None
            with process, _MemoryWatch(process.pid) as watch:
                try:
                    for line in process.stdout:
                        if line.startswith(b"{"):
                            self.first_line_s = self.first_line_s or time.perf_counter() - start
                            self.tests.append(json.loads(line))
                except BaseException:
                    process.kill()
                    raise
            stderr.seek(0)
            output = stderr.read().decode("utf-8", "replace").strip().splitlines()
        self.peak_bytes = watch.peak_bytes
        if process.returncode != 0 or not self.tests:
            last = output[-1] if output else f"exit code {process.returncode}"
            kind = DevtoolsError if process.returncode != 0 else _SaidNothing
            raise kind(f"{name} ({command[0]}) failed: {last}")


class _MemoryWatch:
    """Reads a process's own high-water mark repeatedly, until it ends."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes: int | None = None
        self._status = Path(f"/proc/{pid}/status")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "_MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_POLL_S):
            try:
                lines = self._status.read_text(encoding="ascii", errors="replace").splitlines()
            except OSError:
                return  # it is gone, or the system has no such file
            for line in lines:
                if line.startswith("VmHWM:"):
                    self.peak_bytes = int(line.split()[1]) * 1024
