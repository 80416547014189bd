"""`python -m runtime serve` in a process of its own."""

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import pytest
from support.call_templates import HERMES
from support.chats import export_chat_model
from support.once import made_once


def export_caller(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """stories260K with a chat template that has functions, and a longer context than its own."""

    def make(directory: Path) -> Path:
        source = shutil.copytree(shared_data / "stories260K", directory / "longer")
        config = json.loads((source / "config.json").read_text())
        (source / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 2048}))
        template = HERMES
        return export_chat_model(source, directory, template=template, max_context_len=2048)

    return made_once(tmp_path_factory, "calls", make)


class Server:
    """A server at work.

    Attributes:
        address: such as http://127.0.0.1:4711.
        said: the lines of its log, by now.
    """

    def __init__(self, process: "subprocess.Popen[str]", address: str, said: list[str]) -> None:
        self.process = process
        self.address = address
        self.said = said

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=self.address + "/v1", api_key=key, max_retries=0, timeout=120)

    def metric(self, name: str) -> float:
        """The sum over all that have a name and, in braces, at least these labels."""
        text = httpx.get(self.address + "/metrics").text
        wanted, _, labels = name.rstrip("}").partition("{")
        found = re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE)
        return sum(
            float(value)
            for other, own, value in found
            if other == wanted and set(filter(None, labels.split(","))) <= set(own.split(","))
        )

    def model_process(self) -> int:
        """The number of the model's process."""
        processes = self.model_processes()
        assert processes, "there is no process of the model"
        return processes[0]

    def model_processes(self) -> list[int]:
        """Those of all models that are loaded."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [
            int(child)
            for child in children.read_text().split()
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]


def resident(process: int) -> int:
    """Bytes of memory that a process holds."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the process is gone")


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits for what must come, however busy the machine is."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it does not come")


@contextmanager
def serving(model: Path | str, *options: str) -> Iterator[Server]:
    """A server of a model, or of several that are among the options; it ends with Ctrl-C."""
    command = [sys.executable, "-m", "runtime", "serve", str(model), "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said: list[str] = []
    reader = threading.Thread(target=said.extend, args=[process.stderr])
    try:
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"(?:is|are) at (http://\S+)", line):
                break
        else:
            raise AssertionError("".join(said))
        # A server that complains of much rubbish waits when nobody reads it.
        reader.start()
        yield Server(process, found[1], said)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        if reader.ident is not None:
            reader.join()
    assert process.returncode == 0 and "Traceback" not in "".join(said), said[-100:]
