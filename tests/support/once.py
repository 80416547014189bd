"""What test runs share, made by the first process that needs it and kept for the runs after it.

What is kept lies in build/tests/, under a digest of all that it is made of: our sources, those of
the tests that make it, the built library that checks it, the installed packages, the real weights
and texts, and the processor. It is taken before this process imports what it describes, and again
after each making: where both differ, sources changed meanwhile, and the result serves this run
alone.
"""

import hashlib
import json
import os
import platform
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "tests"
PACKAGES = ("exporter", "quant", "delegates")
LIBRARY = ROOT / "build" / "libthimble_cpu.so"  # with which an export checks its file
MAKERS = (ROOT / "tests" / "support",)
LONGEST = 24 * 60 * 60  # seconds that what no run uses is kept


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        yield from (Path(folder) / name for name in sorted(names))


def _imported(package: str) -> Path:
    """The folder that an import takes the package from: of this checkout, or of another."""
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _stamp(path: Path) -> str:
    """What tells a file from another one, or from itself before a change."""
    status = path.stat() if path.exists() else path.lstat()  # of a link that leads nowhere
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def digest_of(read: list[Path], stamped: list[Path], facts: list[str]) -> str:
    """Of the contents of files and folders, of the stamps of larger ones, and of facts."""
    sha = hashlib.sha256()
    for root in read:
        for path in _files(root):
            sha.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for root in stamped:
        for path in _files(root):
            sha.update(f"{_stamp(path)}\0".encode())
    sha.update("\0".join(facts).encode())
    return sha.hexdigest()[:16]


def _processor() -> str:
    """What the kernels of torch and of ours are chosen by."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    kinds = ("model name", "flags", "Features")
    return "\n".join(sorted({line for line in text.splitlines() if line.startswith(kinds)}))


def _digest() -> str:
    installed = sorted(
        f"{path.name} {path.stat().st_mtime_ns}"
        for path in Path(sysconfig.get_path("purelib")).glob("*.dist-info")
    )
    facts = [sys.version, platform.platform(), _processor()]
    chosen = [os.environ.get(name, "") for name in ("ATEN_CPU_CAPABILITY", "THIMBLE_KERNELS")]
    return digest_of(
        [*map(_imported, PACKAGES), *sorted(_imported("runtime").rglob("*.py")), *MAKERS, LIBRARY],
        [ROOT.parent / "shared" / "data"],
        [*installed, *facts, *chosen],
    )


STARTED = _digest()


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """A file in a directory of that name.

    Args:
        make: gets the new directory; returns the file. What it writes is read by other processes,
            so nothing may change it later. Only what functions in tests/support
            make is kept for later runs.
    """
    run = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        run = run.parent  # each process has a directory of its own below the run's
    source = Path(make.__code__.co_filename)
    if not any(source.is_relative_to(maker) for maker in MAKERS):
        return find_or_make(run, name, make, run, lambda: True)
    return find_or_make(_directory(), name, make, run, lambda: _digest() == STARTED)


def kept_layers() -> Path:
    """The cache of quantized layers that exports of the tests share; its keys have all that a
    layer is made of."""
    return _directory() / "layers"


def find_or_make(
    root: Path, name: str, make: Callable[[Path], Path], run: Path, may_keep: Callable[[], bool]
) -> Path:
    """Makes the file in root / name unless it is there, as it was made.

    Args:
        run: the directory of this test run.
        may_keep: asked after making; if not, other runs make the file again.
    """
    root.mkdir(parents=True, exist_ok=True)
    directory, told = root / name, root / f"{name}.json"
    with FileLock(root / f"{name}.lock"):
        if not _is_intact(directory, told, run):
            told.unlink(missing_ok=True)
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            path = make(directory)
            made = {"path": str(path), "files": _stamps(directory)}
            made["run"] = "" if may_keep() else str(run)
            told.write_text(json.dumps(made), encoding="utf-8")
        return Path(json.loads(told.read_text(encoding="utf-8"))["path"])


def _stamps(directory: Path) -> list[str]:
    return [_stamp(path) for path in _files(directory)]


def _is_intact(directory: Path, told: Path, run: Path) -> bool:
    """Whether the file is there, for this run too, and no file that was made has changed."""
    if not told.exists():
        return False
    made = json.loads(told.read_text(encoding="utf-8"))
    return made["run"] in ("", str(run)) and set(made["files"]) <= set(_stamps(directory))


def _directory() -> Path:
    """Where results are kept, without those that no run has used for long."""
    directory = KEPT / STARTED
    directory.mkdir(parents=True, exist_ok=True)
    os.utime(directory)
    for other in KEPT.iterdir():
        if time.time() - other.stat().st_mtime > LONGEST:
            shutil.rmtree(other, ignore_errors=True)
    return directory
