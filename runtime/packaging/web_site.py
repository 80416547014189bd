"""The files of the browser's page and of the npm package: runtime/web and the built modules."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from runtime.build import BUILD_DIR, CHECKOUT
from runtime.errors import BuildError

WEB_DIR = Path(__file__).resolve().parents[1] / "web"
MODULES = {
    "thimble.wasm": "wasm32",
    "thimble-relaxed.wasm": "wasm32-relaxed",
    "thimble-threads.wasm": "wasm32-threads",
}


@dataclass(frozen=True)
class Site:
    """Files by their address, such as "page/chat.mjs"."""

    files: dict[str, Path]

    def write(self, directory: Path) -> None:
        """Copies the files into a directory.

        Raises:
            OSError: a file cannot be written.
        """
        for address, path in self.files.items():
            to = directory / address
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)


def find_site(build_directory: Path = BUILD_DIR) -> Site:
    """Returns the page with its modules.

    Raises:
        BuildError: a module is not built.
    """
    files = {
        path.relative_to(WEB_DIR).as_posix(): path
        for path in sorted(WEB_DIR.rglob("*"))
        if path.is_file()
    }
    if (CHECKOUT / "LICENSE").is_file():
        files["LICENSE"] = CHECKOUT / "LICENSE"
    for name, preset in MODULES.items():
        files[name] = build_directory / preset / "thimble.wasm"
        if not files[name].is_file():
            raise BuildError(
                f"{files[name]} is missing: the browser's runner is built from a checkout; "
                "there run thimble-runtime build --target wasm32 --executorch-source DIR, where "
                "DIR is a clone of ExecuTorch (see runtime/packaging/README.md), and this command"
            )
    return Site(files)
