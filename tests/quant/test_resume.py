"""Runs killed in the middle: the next one resumes after the last layer, bit-identically."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.exported import Quiet
from support.quantization import content

from exporter.options import ExportOptions
from exporter.pipeline import load_quantized
from exporter.plan.planning import read_plan
from quant.cache.store import Cache

ROOT = Path(__file__).resolve().parents[2]
KILLED_AT = (0, 1, 1, 2, 4, 5)  # so many results are kept, and then some time goes by


@pytest.mark.check
def test_killed_again_and_again(shared_data: Path, tmp_path: Path, calibration_text: Path) -> None:
    """Each run is a child of this process."""

    def digest(cache: Path | None) -> tuple[str, float, int]:
        options = ExportOptions(
            model=str(shared_data / "stories260K"),
            out=tmp_path / "unused.pte",
            calibration=calibration_text,
            calibration_tokens=4096,
            cache=cache,
        )
        plan = read_plan(options, Quiet())
        started = time.monotonic()
        model, report = load_quantized(plan, Quiet())
        seconds = time.monotonic() - started
        total = hashlib.sha256()
        for name, tensor in sorted(content(model).items()):
            total.update(name.encode())
            total.update(tensor.numpy().tobytes())
        total.update(repr((report.quality, report.layer_errors)).encode())
        return total.hexdigest(), seconds, report.cached_layers

    wanted, seconds, _ = digest(None)
    chance = random.Random(0)
    directory, found = tmp_path / "cache", 0
    for kept in KILLED_AT:
        child = os.fork()
        if child == 0:
            try:
                digest(directory)
                signal.pause()  # it never ends by itself
            finally:
                os._exit(1)
        while len(Cache(directory).entries()) < kept:
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.2 * seconds))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        entries = Cache(directory).entries()
        assert all(entry.sound for entry in entries)
        assert len(entries) >= max(found, kept)  # nothing is lost
        found = len(entries)
    got, _, cached = digest(directory)
    assert got == wanted and cached == 5


@pytest.mark.soak
def test_twenty_kills_of_the_command(
    shared_data: Path, tmp_path: Path, calibration_text: Path
) -> None:
    """The command itself, from its start to the file: the same file, byte for byte."""

    def start(out: Path, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "exporter", shared_data / "stories260K", "--out", out]
        command += ["--calibration", calibration_text, "--calibration-tokens", "8192", *options]
        return subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "THIMBLE_CACHE": str(tmp_path / "cache")},
        )

    started = time.monotonic()
    assert start(tmp_path / "wanted.pte", "--no-cache").wait() == 0
    seconds = time.monotonic() - started
    wanted = (tmp_path / "wanted.pte").read_bytes()
    chance = random.Random(1)
    out = tmp_path / "model.pte"
    for _ in range(20):
        process = start(out)
        try:
            process.wait(chance.uniform(0.1, 1) * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert not out.exists() or out.read_bytes() == wanted
        out.unlink(missing_ok=True)
    assert start(out).wait() == 0
    assert out.read_bytes() == wanted
