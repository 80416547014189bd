"""What users read has short sentences.

A piece of code is one word, and a link is its text. An item of a list and a cell of a table stand
alone. A sentence ends at a point, or at a colon or semicolon behind which code or a capital begins.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS = 25
PACKAGES = ("exporter", "quant", "delegates", "runtime", "devtools")

PROGRAM = re.compile(r"^( *)```.*?^\1```|(?<=\n\n)(?:    [^\n]+\n)+", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
APART = re.compile(r"^ *(?:[-*]|\d+\.|#+) |\|", re.MULTILINE)  # begins an item, a heading, a cell
END = re.compile(r"(?<=[.!?])[)\"]*\s+(?=[A-Z\d(\[\"])|(?<=[:;])\s+(?=[A-Z(\[\"])")
COMMAND = re.compile(r"\.(command|group)\(")


def too_long(text: str) -> list[str]:
    """The sentences of a text in Markdown with too many words."""
    found = ((words(sentence), sentence) for sentence in sentences(text))
    return [f"[{count} words] {sentence}" for count, sentence in found if count > MOST_WORDS]


def words(sentence: str) -> int:
    return len(re.findall(r"\S*\w\S*", sentence))


def sentences(text: str) -> Iterator[str]:
    prose = LINK.sub(r"\1", CODE.sub("Code", PROGRAM.sub("", text))).replace("**", "")
    for paragraph in re.split(r"\n\s*\n", APART.sub("\n\n", prose)):
        yield from END.split(" ".join(paragraph.split()))


def helps(path: Path) -> Iterator[str]:
    """What --help prints of the commands of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg in ("help", "short_help"):
            parts = node.value.values if isinstance(node.value, ast.JoinedStr) else [node.value]
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in parts)
        elif isinstance(node, ast.FunctionDef):
            if any(COMMAND.search(ast.unparse(one)) for one in node.decorator_list):
                yield ast.get_docstring(node) or ""


def tracked(pattern: str) -> list[Path]:
    command = ["git", "ls-files", pattern]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines()]


def check(texts: dict[Path, list[str]]) -> None:
    long = {
        path: [one for text in found for one in too_long(text)] for path, found in texts.items()
    }
    lines = [f"{path.relative_to(ROOT)}: {one}" for path, found in long.items() for one in found]
    assert not lines, f"sentences of more than {MOST_WORDS} words:\n" + "\n".join(lines)


def test_every_page() -> None:
    pages = tracked("*.md")
    assert len(pages) > 25
    check({path: [path.read_text(encoding="utf-8")] for path in pages})


def test_every_help() -> None:
    files = [path for path in tracked("*.py") if path.relative_to(ROOT).parts[0] in PACKAGES]
    texts = {path: list(helps(path)) for path in files if "click" in path.read_text("utf-8")}
    assert sum(map(len, texts.values())) > 100
    check(texts)


@pytest.mark.parametrize(
    ("text", "longest"),
    [
        ("one two `three and more` [four](https://five.six) - 7\n", 5),
        ("one two three. Four five (six seven.) Eight: `nine`; ten\n", 4),
        ("one two\n\n- three four five\n  six\n- seven\n", 4),
        ("| one two | three |\n|---|---|\n| four | five six seven |\n", 3),
        ("one\n\n```\ntwo three four\n```\n\n    five six seven\n\neight nine\n", 2),
    ],
)
def test_how_words_are_counted(text: str, longest: int) -> None:
    assert max(words(sentence) for sentence in sentences(text)) == longest
