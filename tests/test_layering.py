"""The rules of the house that a machine can check: who imports whom, sizes, names, no prints."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT: dict[str, set[str]] = {
    "exporter": {"quant", "delegates"},
    "quant": set(),
    "delegates": set(),
    "runtime": set(),
    "devtools": set(),
}
# Not broken yet.
CIRCLES = {
    "delegates",
    "delegates.preference",
    "delegates.kernels",
    "delegates.lowered",
}
MOST_LINES = 400
SOURCES = ("*.py", "*.cpp", "*.cc", "*.h")
VAGUE_NAMES = {"utils.py", "helpers.py", "util.py", "common.py", "misc.py"}


def files_of(package: str, *patterns: str) -> list[Path]:
    found = [path for pattern in patterns for path in (ROOT / package).rglob(pattern)]
    return sorted(path for path in found if "build" not in path.relative_to(ROOT).parts)


def puts_things_together(path: Path) -> bool:
    """`__main__.py` and the commands may import any package and write to stdout."""
    return path.name == "__main__.py" or "commands" in path.relative_to(ROOT).parts


def imported_packages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, top-level package) of every import, at the top or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.split(".")[0]


def printed_lines(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "print":
                yield node.lineno


def library_modules() -> list[Path]:
    paths = [path for package in MAY_IMPORT for path in files_of(package, "*.py")]
    return [path for path in paths if not puts_things_together(path)]


def sources() -> list[Path]:
    return [path for package in (*MAY_IMPORT, "tests") for path in files_of(package, *SOURCES)]


def named(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda path: str(path.relative_to(ROOT)))


@named(library_modules())
def test_imports_follow_the_table(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    forbidden = set(MAY_IMPORT) - MAY_IMPORT[package] - {package}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    wrong = [f"line {line}: {name}" for line, name in imported_packages(tree) if name in forbidden]
    assert not wrong, f"{package} may import {sorted(MAY_IMPORT[package]) or 'nothing of ours'}"


def modules_of(*packages: str) -> dict[str, Path]:
    paths = [path for package in packages for path in files_of(package, "*.py")]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


def imported_modules(path: Path, known: Iterable[str]) -> set[str]:
    """Of the known ones, those that a file imports: at the top, in a function, or for types."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= inner & set(known) or {node.module}
    return names & set(known)


def circles(imports: Mapping[str, set[str]]) -> list[str]:
    """Modules that can be reached from themselves."""
    found = []
    for module in imports:
        reached: set[str] = set()
        new = set(imports[module])
        while new:
            reached |= new
            new = {name for other in new for name in imports[other]} - reached
        if module in reached:
            found.append(module)
    return found


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_no_module_imports_itself_in_the_end(package: str) -> None:
    modules = modules_of(package)
    imports = {name: imported_modules(path, modules) - {name} for name, path in modules.items()}
    assert sum(map(len, imports.values())) > 3
    assert set(circles(imports)) <= CIRCLES


def test_circles_are_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]


@named(library_modules())
def test_library_code_does_not_print(path: Path) -> None:
    lines = list(printed_lines(ast.parse(path.read_text(encoding="utf-8"))))
    assert not lines, "print belongs in __main__.py and commands/; return or raise instead"


@named(sources())
def test_a_file_is_short_and_named_for_its_idea(path: Path) -> None:
    count = len(path.read_text(encoding="utf-8").splitlines())
    assert count <= MOST_LINES, f"{count} lines: this is two files"
    assert path.name not in VAGUE_NAMES, "name the file for the one idea in it"


def test_the_walk_finds_the_packages() -> None:
    assert len(library_modules()) >= 10
    assert set(imported_packages(ast.parse("def f():\n    import quant.gptq"))) == {(2, "quant")}
