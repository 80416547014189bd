"""The rules of the house that a machine can check: who imports whom, sizes, names, no prints."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT: dict[str, set[str]] = {
    "exporter": {"quant", "delegates", "runtime"},  # chat templates are rendered, patterns matched
    "quant": set(),
    "delegates": {"runtime"},  # where the built libraries are, to check a file with them
    "runtime": set(),
    "devtools": set(),
}
# Folders of runtime/cpp, each above those that it may include.
MAY_INCLUDE: dict[str, set[str]] = {
    "core": set(),
    "kernels": set(),
    "llama_ops": set(),
    "value_trace": set(),
    "platform": {"core"},
    "tokenizer": {"core"},
    "constraint": {"core", "tokenizer"},
    "delegate": {"core", "kernels", "platform"},
    "trust": {"core", "platform"},
    "model": {"core", "platform", "tokenizer", "constraint", "delegate", "llama_ops", "trust"},
    "embed": {"core", "tokenizer", "model"},
    "sound": {"core"},
    "picture": {"core"},
    "tensors": {"core", "platform", "constraint", "model"},
    "hear": {"core", "tokenizer", "model", "sound", "tensors"},
    "see": {"core", "platform", "tokenizer", "model", "picture"},
    "answer": {"core", "platform", "tokenizer", "constraint", "model"},
    "draft": {"core", "answer", "model"},
    "runner": {
        *("core", "platform", "tokenizer", "constraint", "model", "picture", "see", "answer"),
        "draft",
    },
    "engine": {"core", "constraint", "model", "see", "answer", "draft", "runner"},
    "c_interface": {
        *("core", "tokenizer", "constraint", "model", "embed", "tensors"),
        *("answer", "runner", "engine", "sound", "hear", "picture", "see"),
    },
    "program": {
        *("core", "platform", "tokenizer", "constraint", "model", "embed", "tensors"),
        *("answer", "runner", "sound", "hear", "picture", "see"),
    },
    "java": {"c_interface"},
    "web": {"c_interface"},
}
ANYTHING = {"bench", "fuzz", "tests"}  # programs that measure and test the rest
MOST_LINES = 400
SOURCES = ("*.py", "*.cpp", "*.cc", "*.h")
VAGUE_NAMES = {"utils.py", "helpers.py", "util.py", "common.py", "misc.py"}
# Folders of delegates/ that belong to no delegate: every other folder is one's own.
SHARED = {"passes", "op_list", "limits_of"}


def files_of(package: str, *patterns: str) -> list[Path]:
    found = [path for pattern in patterns for path in (ROOT / package).rglob(pattern)]
    return sorted(path for path in found if "build" not in path.relative_to(ROOT).parts)


def puts_things_together(path: Path) -> bool:
    """`__main__.py` and the commands, with what they share, may import any package and print."""
    folders = set(path.relative_to(ROOT).parts)
    return path.name == "__main__.py" or bool(folders & {"commands", "command_line"})


@cache
def parsed(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path) -> list[tuple[int, str]]:
    return list(imports(parsed(path)))


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, module) of every import, at the top, inside a function or for types alone; of `from a
    import b` both a and a.b, which may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def modules() -> list[Path]:
    return [path for package in MAY_IMPORT for path in files_of(package, "*.py")]


def library_modules() -> list[Path]:
    return [path for path in modules() if not puts_things_together(path)]


def sources() -> list[Path]:
    return [path for package in (*MAY_IMPORT, "tests") for path in files_of(package, *SOURCES)]


def at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_imports_follow_the_table() -> None:
    wrong = [
        f"{at(path, line)} imports {name}"
        for path in library_modules()
        for line, name in imports_of(path)
        if (package := path.relative_to(ROOT).parts[0]) != (other := name.split(".")[0])
        and other in MAY_IMPORT.keys() - MAY_IMPORT[package]
    ]
    assert not wrong


def circle(graph: dict[str, set[str]]) -> list[str] | None:
    """The names of one circle, if there is any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_no_modules_import_each_other() -> None:
    """Not even for types, nor inside functions."""
    paths = {module_name(path): path for path in modules()}
    graph = {
        name: {other for _, other in imports_of(path) if other in paths and other != name}
        for name, path in paths.items()
    }
    # `import a.b` runs a as well, but what a package re-exports of its own modules is no circle.
    graph = {
        name: {other for other in others if not name.startswith(f"{other}.")}
        for name, others in graph.items()
    }
    assert circle(graph) is None


def test_no_delegate_imports_anothers_inside() -> None:
    wrong = []
    for path in files_of("delegates", "*.py"):
        folder = path.relative_to(ROOT / "delegates").parts[0]
        own = folder.removesuffix(".py")
        for line, name in imports_of(path):
            parts = name.split(".")
            if parts[0] == "delegates" and len(parts) > 1:
                inside = parts[1]
                is_delegate = (ROOT / "delegates" / inside).is_dir() and inside not in SHARED
                if is_delegate and inside != own:
                    wrong.append(f"{at(path, line)} imports {name}")
    assert not wrong


def test_the_exporter_names_no_delegate() -> None:
    folders = (path.parent.name for path in (ROOT / "delegates").glob("*/__init__.py"))
    delegates = {f"delegates.{folder}" for folder in folders} - {f"delegates.{s}" for s in SHARED}
    assert len(delegates) >= 8
    wrong = [
        f"{at(path, line)} imports {name}"
        for path in files_of("exporter", "*.py")
        for line, name in imports_of(path)
        if ".".join(name.split(".")[:2]) in delegates
    ]
    assert not wrong


def test_no_test_imports_another() -> None:
    imports = re.compile(r"^\s*(?:from|import) +(?:\w+\.)*test_\w+", re.MULTILINE)
    wrong = [
        f"{path}: {found[0]}"
        for path in files_of("tests", "*.py")
        if (found := imports.search(path.read_text(encoding="utf-8")))
    ]
    assert not wrong


def test_the_kernels_build_nothing_outside() -> None:
    text = (ROOT / "runtime" / "cpp" / "kernels" / "CMakeLists.txt").read_text()
    assert "../" not in text and "add_executable" not in text


INCLUDE = re.compile(r'^#(?:include|import) "([^"]+)"', re.MULTILINE)


def test_cpp_folders_include_only_what_they_may() -> None:
    root = ROOT / "runtime" / "cpp"
    wrong, seen = [], set()
    for path in files_of("runtime/cpp", "*.cpp", "*.h", "*.mm"):
        folder = path.relative_to(root).parts[0]
        seen.add(folder)
        included = (Path(name) for name in INCLUDE.findall(path.read_text(encoding="utf-8")))
        allowed = {folder} | MAY_INCLUDE.get(folder, set())
        wrong += [
            f"{path.relative_to(root)} includes {name}"
            for name in included
            if folder not in ANYTHING and (root / name).is_file() and name.parts[0] not in allowed
        ]
    assert not wrong
    assert seen == MAY_INCLUDE.keys() | ANYTHING


SYSTEM_HEADER = re.compile(
    r"#\s*(?:include|import)\s*<(?:sys/|linux/|asm/|mach/|(?:unistd|c?signal|fcntl|sched|pthread"
    r"|dlfcn|poll|dirent|termios|windows)(?:\.h)?>)"
)
SYSTEM_MACRO = re.compile(r"#\s*(?:el)?if.*\b(?:__linux__|__unix__|__APPLE__|__ANDROID__|_WIN32)\b")


def of_a_system(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        f"{path.name}:{number}: {line}"
        for number, line in enumerate(lines, 1)
        if SYSTEM_HEADER.match(line) or SYSTEM_MACRO.match(line)
    ]


def test_the_platform_alone_knows_the_system() -> None:
    """The kernels and their tests stand alone, so they ask it themselves: what the processor can
    do, and for memory."""
    files = files_of("runtime/cpp", "*.cpp", "*.h", "*.mm")
    found = {path.relative_to(ROOT / "runtime" / "cpp"): of_a_system(path) for path in files}
    allowed = {
        path
        for path in found
        if path.parts[0] == "platform"
        or path.match("kernels/select/cpu_features_*.cpp")
        or path.match("tests/kernels/guarded_memory.cpp")
    }
    assert any(found[path] for path in allowed)
    wrong = [line for path, lines in found.items() if path not in allowed for line in lines]
    assert not wrong, "runtime/cpp/platform has what the system offers"


def test_library_code_does_not_print() -> None:
    printed = [
        at(path, node.lineno)
        for path in library_modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not printed, "print belongs in __main__.py and commands/; return or raise instead"


def test_files_are_short_and_named_for_their_idea() -> None:
    for path in sources():
        count = len(path.read_text(encoding="utf-8").splitlines())
        assert count <= MOST_LINES, f"{path}: {count} lines"
        assert path.name not in VAGUE_NAMES, f"{path}: name the file for the one idea in it"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f():\n    import quant.rounding.gptq", {"quant.rounding.gptq"}),
        ("if TYPE_CHECKING:\n    from a import b", {"a", "a.b"}),
    ],
)
def test_imports_are_found_wherever_they_stand(code: str, found: set[str]) -> None:
    assert len(library_modules()) >= 10
    assert {name for _, name in imports(ast.parse(code))} == found


def test_circles_are_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None
    assert circle({"a": {"b", "c"}, "b": {"c"}}) is None
