"""A process that is asked by lines and answers by lines: build/bench, or a rival's worker."""

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from devtools.errors import DevtoolsError


class Ended(DevtoolsError):
    """The process ended by itself; `said` is its last line, empty if it printed nothing."""

    def __init__(self, sentence: str, output: str) -> None:
        super().__init__(sentence)
        self.said = output


class Server:
    """Runs a command until close(); its first line is JSON and describes it.

    Args:
        command: the program and its arguments.
        name: what to call it in errors.

    Attributes:
        greeting: that first line.
        load_s: seconds from the process's start to it.

    Raises:
        Ended: it ended instead; the sentence contains its last line.
        DevtoolsError: it cannot be started.
    """

    def __init__(self, command: list[str | Path], name: str) -> None:
        self._name = name
        self._stderr = tempfile.TemporaryFile()
        self._start = time.perf_counter()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
            )
        except OSError as error:
            self._stderr.close()
            raise DevtoolsError(f"{name} cannot be started ({error.strerror}).") from None
        try:
            self.greeting: dict[str, Any] = self._read()
        except BaseException:
            self.close()
            raise
        self.load_s = self.age()

    def age(self) -> float:
        """Seconds since the process was started."""
        return time.perf_counter() - self._start

    def ask(self, *words: str | int) -> dict[str, Any]:
        """Sends one command; returns its answer.

        Raises:
            DevtoolsError: the process refused, failed or ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None
        return self._read()

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                pass  # it ended before us
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._stderr.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.kill()
        self.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line.startswith("error: "):
            raise DevtoolsError(f"{self._name}: {line.removeprefix('error: ').strip()}")
        if not line.startswith("{"):
            raise self._ended()
        return json.loads(line)

    def _ended(self) -> Ended:
        self._process.kill()
        self._process.wait()
        self._stderr.seek(0)
        output = self._stderr.read().decode("utf-8", "replace").strip().splitlines()
        last = output[-1] if output else f"it printed nothing, exit code {self._process.returncode}"
        return Ended(f"{self._name} ended: {last}", output[-1] if output else "")
