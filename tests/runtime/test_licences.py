"""The licence in a wheel's metadata covers everything that it carries."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.licenses import canonicalize_license_expression

from runtime.errors import BuildError
from runtime.packaging.licences import LICENCES, copy_executorch_licence, with_licences

ROOT = Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")


def licence_with(*names: str) -> str:
    text = with_licences(PROJECT, [Path(f"LICENSE-{name}") for name in names])
    licence: str = tomllib.loads(text)["project"]["license"]
    assert canonicalize_license_expression(licence) == licence
    return licence


def test_copies_add_theirs() -> None:
    own = tomllib.loads(PROJECT)["project"]["license"]
    assert licence_with() == own
    assert licence_with("zlib", "openssl", "executorch") == f"{own} AND BSD-3-Clause AND Zlib"
    assert licence_with("dr_libs") == f"{own} AND (Unlicense OR MIT-0)"
    everything = licence_with(*LICENCES).split(" AND ")
    assert {"IJG", "BSD-3-Clause", "Zlib", "libpng-2.0"} <= set(everything)
    assert len(everything) == len(set(everything))


def test_a_copy_without_a_known_licence_is_no_wheel() -> None:
    with pytest.raises(BuildError, match="does not say what libx is licensed under"):
        licence_with("libx")


def test_every_library_that_brings_its_licence_is_known() -> None:
    files = [path.read_text("utf-8") for path in (ROOT / "runtime/cpp").rglob("CMakeLists.txt")]
    named = r"(?:carry_\w*licence\(|RENAME LICENSE-)([a-z]\S+)"
    carried = set(re.findall(named, "".join(files)))
    assert carried == set(LICENCES) - {"executorch"}


def test_the_licence_of_executorch_is_copied(tmp_path: Path) -> None:
    copy_executorch_licence(tmp_path)
    text = (tmp_path / "LICENSE-executorch").read_text("utf-8")
    assert "Redistributions in binary form" in text
