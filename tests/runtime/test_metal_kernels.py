"""Metal's kernels in C++ through the shim; their source and device.mm as texts.

What runs here is the kernels' own source. What does not: Metal's compiler, whose rules that the
shim cannot see (the numbers of buffers, address spaces) are checked on the text, and the host's
Objective-C++, of which clang checks the syntax against declarations of ours.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.tiers import soaked_rows

CPP = Path(__file__).resolve().parents[2] / "runtime" / "cpp"
METAL = CPP / "delegate" / "metal"
# The shim runs a device's threads one after another, so what computes much takes long.
QUICK = {
    "metal_attention_test": "",
    "metal_executor_test": "same_bits_as_the_cpu_delegate starts_in_a_ring the_same_cache sessions "
    "refused_operators refusals",
    "metal_linear_test": "float_weights",
    "metal_rows_test": "",
    "metal_shim_test": "",
}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(
    ("program", "cases"),
    [*QUICK.items(), *soaked_rows((name, "") for name, cases in QUICK.items() if cases)],
)
def test_program(cpp_build: Path, program: str, cases: str) -> None:
    """All of its cases, or those that are named."""
    result = run(cpp_build / program, *cases.split())
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def source(cpp_build: Path) -> str:
    """The text that a device compiles, without its comments."""
    text = (cpp_build / "targets" / "metal" / "kernels.metal").read_text(encoding="utf-8")
    return re.sub(r"//.*", "", text)


def kernels_of(source: str) -> dict[str, list[str]]:
    """The parameters of every kernel."""
    found = re.findall(r"\nkernel void (\w+)\((.*?)\) \{", source, re.DOTALL)
    return {name: [" ".join(p.split()) for p in text.split(",\n")] for name, text in found}


def test_attributes_agree_with_the_order_of_parameters(source: str) -> None:
    """The shim ignores attributes and goes by order and type: both must say the same."""
    kernels = kernels_of(source)
    assert len(kernels) == source.count("kernel void") > 0
    for name, parameters in kernels.items():
        expected = iter(range(10))
        places = []
        for parameter in parameters:
            declared, attribute = re.fullmatch(r"(.*?)(?: \[\[(.*)\]\])", parameter).groups()  # type: ignore[union-attr]
            if declared.startswith("threadgroup "):
                assert attribute == "threadgroup(0)", name
                places.append("memory")
            elif declared.startswith(("device ", "constant ")):
                assert attribute == f"buffer({next(expected)})", (name, declared)
                places.append("constants" if declared.startswith("constant ") else "buffer")
                assert ("&" in declared) == declared.startswith("constant "), (name, declared)
            else:
                type_and_name = {
                    "threadgroup_position_in_grid": "uint3 group",
                    "thread_index_in_threadgroup": "uint thread_index",
                    "threads_per_threadgroup": "uint3 threads",
                }
                assert declared == type_and_name[attribute], name
                places.append(attribute)
        order = ["buffer", "constants", "memory", *type_and_name]
        assert places == sorted(places, key=order.index), name
        assert places.count("constants") == 1 and places.count("memory") <= 1, name


def test_every_pointer_has_an_address_space(source: str) -> None:
    """Metal refuses a pointer or a reference that does not say where it points to."""
    outside = re.sub(r"\[\[.*?\]\]", "", source)
    declarations = re.findall(r"[\w<> ]*\b\w+\s*[*&]\s+?\w+\s*[,;=)\[]", outside)
    pointers = [text for text in declarations if re.search(r"[a-zA-Z][*&] ", text)]
    assert len(pointers) > 100
    for text in pointers:
        assert re.search(r"\b(device|constant|threadgroup|thread)\b", text), text
    casts = re.findall(r"reinterpret_cast<(.*?)>", outside)
    assert casts and all(text.startswith("device ") for text in casts)


def test_nothing_that_metal_lacks(source: str) -> None:
    """No double, no lambda, no library beyond Metal's, no simdgroup matrix, no static local."""
    assert not re.search(r"\b(double|std|auto|static_cast<double|simdgroup\w*|new|goto)\b", source)
    assert not re.search(r"\[[&=]?\]\s*\(", source)
    assert re.findall(r"#include (.*)", source) == ["<metal_stdlib>", "<cstdint>"]
    without_f = re.findall(r"(?<![\w.])\d+\.\d*(?:e[-+]?\d+)?(?![\dfe.])", source)
    assert without_f == []


def test_the_math_is_ieee(source: str) -> None:
    assert "#pragma METAL fp math_mode(safe)" in source
    assert "#pragma METAL fp contract(off)" in source
    assert "options.fastMathEnabled = NO;" in (METAL / "device.mm").read_text(encoding="utf-8")


def test_the_string_that_is_built_in(cpp_build: Path, tmp_path: Path) -> None:
    """What a device gets is what the tests ran, and short enough for any compiler's literals."""
    output = tmp_path / "metal_source.cpp"
    cmake = shutil.which("cmake", path=str(Path(shutil.which("python") or "").parent)) or "cmake"
    made = run(cmake, f"-DOUTPUT={output}", "-DAS_STRING=ON", "-P", METAL / "source.cmake")
    assert made.returncode == 0, made.stderr
    text = (cpp_build / "targets" / "metal" / "kernels.metal").read_text(encoding="utf-8")
    assert text in output.read_text(encoding="utf-8") and len(text) < 65536
    compiled = run("g++", "-std=c++17", "-fsyntax-only", output)
    assert compiled.returncode == 0, compiled.stderr


def clang() -> str:
    found = shutil.which("clang++")
    if found is None:
        pytest.skip("clang++ is not installed (Debian: clang)")
    return found


def check_address_spaces(source: str, file: Path) -> subprocess.CompletedProcess[str]:
    """Compiles the kernels as C++ for OpenCL, whose address spaces are Metal's."""
    text = re.sub(r"\s*\[\[.*?\]\]", "", source)
    file.write_text(re.sub(r"\bchar4\((?=\w)", "make_char4(", text), encoding="utf-8")
    headers = CPP / "tests" / "metal" / "headers" / "address_spaces"
    language = ["-x", "cl", "-cl-std=clc++2021", "-Xclang", "-finclude-default-header"]
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wdouble-promotion"]
    return run(clang(), *language, *warnings, f"-I{headers}", "-fsyntax-only", file)


def test_address_spaces(source: str, tmp_path: Path) -> None:
    checked = check_address_spaces(source, tmp_path / "kernels.cl")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("threadgroup int* panel = memory;", "device int* panel = memory;"),
        ("threadgroup float* head = memory", "thread float* head = memory"),
        ("device const float* norm = floats", "constant float* norm = floats"),
    ],
)
def test_a_wrong_address_space_is_found(
    source: str, right: str, wrong: str, tmp_path: Path
) -> None:
    assert right in source
    checked = check_address_spaces(source.replace(right, wrong, 1), tmp_path / "kernels.cl")
    assert checked.returncode != 0 and "__" in checked.stderr


OBJECTIVE_C = ["-x", "objective-c++", "-std=c++17", "-fblocks", "-fobjc-arc"]
OBJECTIVE_C += ["-fobjc-runtime=macosx", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def test_the_syntax_of_the_host() -> None:
    """Syntax and types, against our own declarations of Metal: no proof that it runs."""
    headers = CPP / "tests" / "metal" / "headers"
    command = [clang(), *OBJECTIVE_C, f"-I{headers}", f"-I{CPP}"]
    checked = run(*command, METAL / "device.mm")
    assert checked.returncode == 0, checked.stderr


def test_the_check_of_the_syntax_finds_a_wrong_call(tmp_path: Path) -> None:
    text = (METAL / "device.mm").read_text(encoding="utf-8")
    wrong = tmp_path / "device.mm"
    wrong.write_text(text.replace("atIndex:i]", "atPlace:i]"), encoding="utf-8")
    headers = CPP / "tests" / "metal" / "headers"
    checked = run(clang(), *OBJECTIVE_C, f"-I{headers}", f"-I{CPP}", wrong)
    assert checked.returncode != 0 and "setBuffer:offset:atPlace:" in checked.stderr
