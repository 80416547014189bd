"""The modules for browsers and node, the npm package, and a server for pages."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from support.node import find_node

from runtime.build import build
from runtime.errors import BuildError
from runtime.packaging.executorch_source import find_source
from runtime.packaging.web_site import MODULES, Site, find_site
from runtime.web_server import open_server


def build_modules(
    shared_data: Path, presets: Sequence[str] = tuple(MODULES.values())
) -> list[Path]:
    """thimble.wasm of each preset; skips the test where one cannot be built."""
    find_node()
    directory = shared_data / "executorch_source"
    if not directory.is_dir():
        pytest.skip(f"{directory} is missing")
    pytest.importorskip("ziglang", reason="pip install 'thimble-ml[zig]'")
    try:
        source = find_source(directory)
    except BuildError as error:
        pytest.skip(str(error))
    directories = [build(preset, ("thimble_web",), source).directory for preset in presets]
    return [directory / "thimble.wasm" for directory in directories]


def built_site(shared_data: Path) -> Site:
    """The page, with its modules built."""
    build_modules(shared_data)
    return find_site()


def npm(directory: Path, *arguments: str | Path) -> None:
    """Runs npm in a directory, without the network."""
    node = find_node()
    script = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--offline", "--no-audit", "--no-fund", f"--cache={directory / '.npm'}"]
    command = [node, script, *arguments, *options]
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr


@contextmanager
def served(files: Mapping[str, Path]) -> Iterator[str]:
    """The URL at which files are served by their address."""
    with open_server(files, 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
