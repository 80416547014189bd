"""Programs whose n-th write, mapping, allocation or rename fails, or is where they are killed."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

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
