"""`quant run` on a model, as one process or as several of torchrun's."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Starter:
    """Starts `quant run` on a checkpoint, as one process or as torchrun's."""

    def __init__(self, checkpoint: Path, text: Path) -> None:
        self._arguments = ["-m", "quant", "run", str(checkpoint)]
        self._arguments += ["--calibration", str(text), "--calibration-tokens", "4096"]

    def start(self, count: int, cache: Path, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable]
        if count > 1:
            command += ["-m", "torch.distributed.run", "--nproc-per-node", str(count)]
        command += [*self._arguments, "--cache", str(cache), *options]
        return subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )


def entries(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.rglob("*.safetensors")}


def finish(process: subprocess.Popen[str], layers: int = 5) -> str:
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    assert out.count(f"{layers} layers in") == 1  # one process speaks
    return out
