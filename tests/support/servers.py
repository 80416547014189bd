"""`python -m runtime serve` in a process of its own."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai


class Server:
    """A server at work.

    Attributes:
        address: such as http://127.0.0.1:4711.
    """

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.process = process
        self.address = address

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=self.address + "/v1", api_key=key, max_retries=0, timeout=120)

    def metric(self, name: str) -> float:
        text = httpx.get(self.address + "/metrics").text
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def model_process(self) -> int:
        """The number of the model's process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for child in children.read_text().split():
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        raise AssertionError("there is no process of the model")


@contextmanager
def serving(model: Path, *options: str) -> Iterator[Server]:
    """A server of a model, which ends with Ctrl-C."""
    command = [sys.executable, "-m", "runtime", "serve", str(model), "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"is at (http://\S+)", line):
                break
        else:
            raise AssertionError("".join(said))
        yield Server(process, found[1])
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and "Traceback" not in rest, rest
