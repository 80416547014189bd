"""The wheel, installed outside the checkout: it exports and runs, and compiles nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import executorch
import pytest

from runtime.packaging.package import package

pytestmark = pytest.mark.check
C_RUNTIME = re.compile(r"lib(c|m|dl|pthread|stdc\+\+|gcc_s)\.so\.\d+")


@pytest.fixture(scope="module")
def installed(cpp_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that has the wheel's packages, and those alone: ExecuTorch's lies elsewhere."""
    directory = tmp_path_factory.mktemp("wheel")
    wheel = package(directory, partial=True)
    assert re.fullmatch(r"thimble_ml-.+-manylinux_2_\d\d_\w+\.whl", wheel.name)
    site = directory / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        made = {"runner", "bench", "libthimble.so", "libthimble_watch.so"}
        assert {f"runtime/bin/{name}" for name in made} <= names
        assert not any(name.startswith(("build/", "tests/")) for name in names)
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
        told = set(re.findall(r"^License-File: (.+)$", text, re.M))
        (expression,) = re.findall(r"^License-Expression: (.+)$", text, re.M)
        kept = {name for name in names if re.match(r"runtime/.*/LICENSE-", name)}
        assert told == {"LICENSE", *kept} and "runtime/web/vendor/LICENSE-marked" in kept
        assert {f"{Path(metadata).parent}/licenses/{file}" for file in told} <= names
        ours = ("Apache-2.0", "CC-BY-SA-3.0", "MIT", "PSF-2.0", "BSD-3-Clause")
        assert set(ours) <= set(expression.split(" AND "))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel]
    subprocess.run(pip, check=True)
    return site


def run(installed: Path, directory: Path, *command: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        list(map(str, command)), cwd=directory, env=environment, capture_output=True, text=True
    )


def test_its_scripts_export_and_run(installed: Path, tmp_path: Path) -> None:
    scripts = installed / "bin"
    exported = run(
        installed,
        tmp_path,
        *(scripts / "thimble-export", "llama3", "--quant", "rtn4", "--out", "model.pte"),
    )
    assert exported.returncode == 0, exported.stderr
    # Checked by running it: the delegate's library was found.
    assert "checked: the file's logits differ from" in exported.stdout
    arguments = ("model.pte", "-p", "import", "-n", "8", "--json", "stats.json")
    answer = run(installed, tmp_path, scripts / "thimble-runner", *arguments)
    assert answer.returncode == 0 and answer.stdout, answer.stderr
    assert json.loads((tmp_path / "stats.json").read_text())["generated_tokens"] == 8
    ours = run(installed, tmp_path, sys.executable, "-c", "import runtime; print(runtime.__file__)")
    assert ours.stdout.strip() == str(installed / "runtime" / "__init__.py")
    assert not (installed / "build").exists()


def test_it_loads_what_xnnpack_runs(installed: Path, tmp_path: Path, embedded_pte: Path) -> None:
    """Whose embedding is read by a library of ExecuTorch's that ours opens where it needs it."""
    said = "from runtime import Runner; print(len(list(Runner(argv[1]).generate('a'))) > 0)"
    loaded = run(
        installed, tmp_path, sys.executable, "-c", f"from sys import argv; {said}", embedded_pte
    )
    assert loaded.stdout == "True\n", loaded.stderr


def test_its_programs_need_only_the_runtimes_of_c(installed: Path, tmp_path: Path) -> None:
    """Where ExecuTorch's package lies beside them."""
    binaries = tmp_path / "runtime" / "bin"
    shutil.copytree(installed / "runtime" / "bin", binaries)
    (tmp_path / "executorch").symlink_to(next(iter(executorch.__path__)), target_is_directory=True)
    for name in ("runner", "bench", "libthimble.so", "libthimble_cpu.so"):
        ldd = subprocess.run(["ldd", binaries / name], check=True, capture_output=True, text=True)
        found = dict(re.findall(r"(\S+) => (.+)", ldd.stdout))
        assert {"libexecutorch.so", "libc.so.6"} <= set(found)
        outside = {one for one, path in found.items() if not path.startswith(str(tmp_path))}
        assert all(map(C_RUNTIME.fullmatch, outside)), ldd.stdout
    copies = {re.sub(r"[\d.]*\.so.*|^lib", "", p.name) for p in binaries.glob("*.so.*")}
    names = {"z": "zlib", "jpeg": "libjpeg-turbo"}
    licences = {f"LICENSE-{names.get(copy, f'lib{copy}')}" for copy in copies}
    # OpenSSL is inside one of our libraries, dr_libs and parts of ExecuTorch inside the programs.
    licences.add("LICENSE-executorch")
    if (binaries / "libthimble_digests.so").exists():
        licences.add("LICENSE-openssl")
    assert licences == {p.name for p in binaries.glob("LICENSE-*")} - {"LICENSE-dr_libs"}


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("build", "--target", "aarch64"), "clone the repository to build"),
        (("web",), "the browser's runner is built from a checkout"),
    ],
)
def test_it_builds_nothing_for_other_systems(
    installed: Path, tmp_path: Path, command: tuple[str, ...], sentence: str
) -> None:
    """Nor does it download or write anything for that."""
    before = set((installed / "runtime" / "bin").iterdir())
    told = run(installed, tmp_path, installed / "bin" / "thimble-runtime", *command)
    assert told.returncode != 0 and sentence in told.stderr
    assert "fetched" not in told.stdout
    assert set((installed / "runtime" / "bin").iterdir()) == before


SCRIPTS = pytest.mark.parametrize(
    "name", ["export", "quant", "devtools", "runtime", "run", "runner"]
)


@SCRIPTS
def test_every_script_tells_its_help(installed: Path, tmp_path: Path, name: str) -> None:
    told = run(installed, tmp_path, installed / "bin" / f"thimble-{name}", "-h")
    assert told.returncode == 0 and "--help" in told.stdout, told.stderr


@pytest.mark.soak
@SCRIPTS
def test_every_script_tells_its_version(installed: Path, tmp_path: Path, name: str) -> None:
    version = run(installed, tmp_path, installed / "bin" / f"thimble-{name}", "--version")
    assert version.returncode == 0 and "0.1.0" in version.stdout, version.stderr


@pytest.mark.soak
def test_it_installs_beside_what_people_use(cpp_build: Path, tmp_path: Path) -> None:
    """In an environment of its own, with the newest of three packages of many requirements."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python, wheel = tmp_path / "venv" / "bin" / "python", package(tmp_path, partial=True)
    others = ("transformers", "gradio", "langchain_openai")
    asked = subprocess.run([python, "-m", "pip", "download", "--no-deps", "-d", tmp_path, "click"])
    if asked.returncode != 0:
        pytest.skip("PyPI cannot be reached")
    pip = [python, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "install", f"{wheel}[serve]", *others], check=True)
    subprocess.run([*pip, "check"], check=True)
    imports = f"import runtime.server.app, exporter.pipeline, {', '.join(others)}"
    subprocess.run([python, "-c", imports], cwd=tmp_path, check=True)
    command = [python.with_name("thimble-export"), "llama3", "--quant", "rtn4", "--out", "m.pte"]
    subprocess.run(command, cwd=tmp_path, check=True)
    answer = subprocess.run(
        [python.with_name("thimble-runner"), "m.pte", "-p", "import", "-n", "8"],
        cwd=tmp_path,
        capture_output=True,
    )
    assert answer.returncode == 0 and answer.stdout, answer.stderr
