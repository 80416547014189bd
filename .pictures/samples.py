"""Runs the commands that READMEs show behind `$ `, and writes below each what it prints.

    make samples

A command below which nothing stands is run, and its output is not shown. A line of dots stands for
what is left out: as many lines stay before it as before.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"^```\n(\$ .*?)^```$", re.DOTALL | re.MULTILINE)
_WROTE = re.compile(r"^wrote .*\n", re.MULTILINE)  # with times and paths of this machine


def _samples(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block and the lines that follow it."""
    for sample in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = sample.partition("\n")
        yield command, output.splitlines()


def _printed(command: str, before: list[str]) -> str:
    result = subprocess.run(
        ["bash", "-c", f"PATH={ROOT}/.venv/bin:$PATH; COLUMNS=250; export COLUMNS; {command}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        raise SystemExit(f"$ {command}\n{result.stderr}")
    lines = _WROTE.sub("", result.stdout).splitlines()
    if "..." in before:
        lines = [*lines[: before.index("...")], "..."]
    return "".join(f"{line.rstrip()}\n" for line in lines if before)


def _renew(match: re.Match[str]) -> str:
    samples = list(_samples(match[1]))
    return "".join(
        [
            "```\n",
            *(f"$ {command}\n{_printed(command, before)}" for command, before in samples),
            "```",
        ]
    )


if __name__ == "__main__":
    names = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in names.stdout.split():
        text = (ROOT / name).read_text(encoding="utf-8")
        renewed = _BLOCK.sub(_renew, text)
        if renewed != text:
            (ROOT / name).write_text(renewed, encoding="utf-8")
            print(f"wrote {name}")
