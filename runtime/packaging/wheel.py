"""ExecuTorch for another machine: the headers and libraries of its wheel, without Python files."""

import importlib.metadata
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from runtime.errors import BuildError

PLATFORM = "manylinux_2_28_aarch64"
KEPT = ("include/", "lib/", "share/")


def fetch_wheel(directory: Path) -> bool:
    """Downloads the aarch64 wheel of this environment's ExecuTorch with pip, and unpacks the C++
    parts into `directory`, completely or not at all. Does nothing if `directory` exists.

    Returns:
        whether anything was downloaded.

    Raises:
        BuildError: pip failed; the message ends with its output.
    """
    if directory.is_dir():
        return False
    version = importlib.metadata.version("executorch")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        options = ["--platform", PLATFORM, "--only-binary=:all:", "--no-deps"]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
        command = [*pip, f"executorch=={version}", *options, "--dest", scratch]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if result.returncode != 0 or len(wheels) != 1:
            output = "\n".join((result.stdout + result.stderr).strip().splitlines()[-10:])
            raise BuildError(
                f"cannot download executorch {version} for {PLATFORM}: pip said:\n{output}"
            )
        _unpack(wheels[0], Path(scratch) / "kept")
        (Path(scratch) / "kept" / "executorch").rename(directory)
    return True


def _unpack(wheel: Path, into: Path) -> None:
    kept = tuple(f"executorch/{folder}" for folder in KEPT)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into, [name for name in archive.namelist() if name.startswith(kept)])
