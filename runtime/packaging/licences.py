"""What a wheel's copies of libraries are licensed under, as PEP 639 has a package tell it."""

import importlib.metadata
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from runtime.errors import BuildError

# In SPDX's words, by the end of the name of a LICENSE-file.
LICENCES = {
    "dr_libs": "Unlicense OR MIT-0",
    "executorch": "BSD-3-Clause",
    "libjpeg-turbo": "IJG AND BSD-3-Clause AND Zlib",
    "libpng": "libpng-2.0",
    "libwebp": "BSD-3-Clause",
    "openssl": "Apache-2.0",
    "zlib": "Zlib",
}
_FIELD = re.compile(r'^license = "(.+)"', re.MULTILINE)


def copy_executorch_licence(directory: Path) -> None:
    """Adds the licence of ExecuTorch, of whose static libraries and headers programs are made.

    Raises:
        BuildError: its package has none.
    """
    files = importlib.metadata.files("executorch") or ()
    found = [file for file in files if file.name == "LICENSE" and "licenses" in file.parts]
    if not found:
        raise BuildError("the executorch package has no licence: install its 1.5.1 wheel")
    shutil.copy(str(found[0].locate()), directory / "LICENSE-executorch")


def with_licences(project: str, files: Iterable[Path]) -> str:
    """Returns a pyproject.toml whose licence covers those of LICENSE-files too.

    Raises:
        BuildError: a file is of a library that LICENCES does not have.
    """
    names = sorted(file.name.removeprefix("LICENSE-") for file in files)
    unknown = [name for name in names if name not in LICENCES]
    if unknown:
        raise BuildError(f"LICENCES does not say what {unknown[0]} is licensed under: add it there")
    (own,) = _FIELD.findall(project)
    parts = own.split(" AND ")
    for name in names:
        licence = LICENCES[name]
        parts += [f"({licence})"] if " OR " in licence else licence.split(" AND ")
    return _FIELD.sub(f'license = "{" AND ".join(dict.fromkeys(parts))}"', project)
