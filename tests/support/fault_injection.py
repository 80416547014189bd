"""Programs whose n-th write, mapping, allocation or rename fails, or is where they are killed."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "faults"
CALLS = ("write", "mmap", "rename", "malloc")
LONGEST = 600  # seconds; what hangs fails


@dataclass(frozen=True)
class Faults:
    """The library that is preloaded; `folder` has the files whose calls count."""

    library: Path
    folder: Path

    @classmethod
    def build(cls, folder: Path, library: Path) -> "Faults":
        command = ["cc", "-O1", "-fPIC", "-shared", SOURCES / "faults.c", "-o", library, "-ldl"]
        subprocess.run(command, check=True)
        return cls(library, folder)

    def run(
        self, command: list[str | Path], call: str, n: int, kills: bool = False
    ) -> tuple["subprocess.CompletedProcess[str]", bool]:
        """Runs a command; returns how it ended, and whether it came to its n-th call."""
        count = self.library.with_suffix(".count")
        count.unlink(missing_ok=True)
        variables = {
            "LD_PRELOAD": str(self.library),
            "FAULT_CALL": call,
            "FAULT_N": str(n),
            "FAULT_UNDER": str(self.folder),
            "FAULT_COUNT": str(count),
            **({"FAULT_KILL": "1"} if kills else {}),
        }
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=LONGEST, env=os.environ | variables
        )
        return ended, not count.exists() or int(count.read_text()) <= 0

    def forked(self, script: str, cases: list[tuple[str, ...]]) -> list[tuple[int, int, str]]:
        """Runs a script of faults/forked.py for cases of (call, n, kills); returns how each ended,
        what was left of its n, and the sentence of its error."""
        return self.script(script, self.folder, *(":".join(case[:3]) for case in cases))

    def script(self, name: str, *arguments: str | Path) -> list[tuple[Any, ...]]:
        """Runs a script beside faults.c with the library preloaded; returns the lists that it
        prints."""
        root = SOURCES.parents[2]
        ended = subprocess.run(
            [sys.executable, SOURCES / name, self.library, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=LONGEST * 10,
            env=os.environ | {"LD_PRELOAD": str(self.library), "PYTHONPATH": str(root)},
        )
        lines = [line for line in ended.stdout.splitlines() if line.startswith("[")]
        return [tuple(json.loads(line)) for line in lines]
