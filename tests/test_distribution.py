"""What the package is called on PyPI, what it needs, and what tests pin."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from runtime.distribution import DISTRIBUTION, version, with_extra

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = ("exporter", "quant", "delegates", "runtime", "devtools", "tests")
NAMED = re.compile(r"pip install[^\n]*?'(thimble[\w.-]*)\[([\w-]+)\]'")


def requirements() -> list[Requirement]:
    extras = [PROJECT["optional-dependencies"][name] for name in ("serve", "bench", "zig")]
    return [Requirement(text) for part in (PROJECT["dependencies"], *extras) for text in part]


def test_the_name_and_the_version_are_told_once() -> None:
    assert (PROJECT["name"], PROJECT["version"]) == (DISTRIBUTION, version())
    assert with_extra("serve") == f"pip install '{DISTRIBUTION}[serve]'"


def test_every_text_installs_this_package_and_one_of_its_extras() -> None:
    paths = [*ROOT.glob("*.md"), *(p for name in PACKAGES for p in (ROOT / name).rglob("*.*"))]
    texts = [p for p in paths if p.suffix in (".md", ".py") and "build" not in p.parts]
    found = {
        (path.name, name, extra)
        for path in texts
        for name, extra in NAMED.findall(path.read_text(encoding="utf-8"))
    }
    assert {extra for _, _, extra in found} >= {"serve", "zig", "lm-eval"}
    extras = PROJECT["optional-dependencies"]
    wrong = [one for one in found if one[1] != DISTRIBUTION or one[2] not in extras]
    assert not wrong


def test_arm_needs_nothing_that_is_not_made_for_it() -> None:
    """ExecuTorch's own marker: where it has Core ML's backend, we ask for the converter."""
    linux = {"sys_platform": "linux", "platform_system": "Linux"}
    (ours,) = (one for one in requirements() if one.name == "coremltools")
    (theirs,) = (
        one
        for one in map(Requirement, importlib.metadata.requires("executorch") or ())
        if one.name == "coremltools"
    )
    for machine in ("x86_64", "aarch64"):
        at = {**linux, "platform_machine": machine, "python_version": "3.11", "extra": ""}
        assert ours.marker and theirs.marker
        assert ours.marker.evaluate(at) == theirs.marker.evaluate(at) == (machine == "x86_64")


def test_tests_pin_what_users_may_have() -> None:
    lines = (ROOT / "tests" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    pinned = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    for requirement in requirements():
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])
    fixed = {pin.name for pin in requirements() if str(pin.specifier).startswith("==")}
    assert fixed == {"torch", "executorch", "torchao", "ziglang"}
