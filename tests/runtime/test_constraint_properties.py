"""Unicode's properties in regular expressions: \\p{...}."""

import json
from pathlib import Path

import pytest
import regex
from support.constraints import MATCHES, accepts, refusal
from support.cpp_programs import ask, frame_texts
from support.unicode_runs import CATEGORIES, EVERY, HEADER, SCRIPTS, header, ranges_of

GROUPS = ["L", "LC", "M", "N", "P", "S", "Z", "C"]


def place(point: int) -> int:
    """Where a code point is among those that are no surrogates."""
    return point if point < 0xD800 else point - 0x800


def test_every_character_has_its_properties(cpp_build: Path) -> None:
    names = [*CATEGORIES, *GROUPS, *(f"Script={name}" for name in SCRIPTS), "Assigned", "ASCII"]
    requests = []
    for name in names:
        ranges = ranges_of(name)
        is_of_it = "".join(EVERY[place(point)] for both in ranges for point in both)
        beside = {n for a, b in ranges for n in (place(a) - 1, place(b) + 1)}
        others = "".join(EVERY[n] for n in sorted(beside) if 0 <= n < len(EVERY))
        texts = ["regex", rf"\p{{{name}}}*|\P{{{name}}}*", is_of_it, others]
        requests.append(frame_texts([text.encode() for text in texts]))
    answers = ask([cpp_build / "constraint_cli", "texts"], requests, 1)
    wrong = [
        name
        for name, said in zip(names, answers, strict=True)
        if said.decode() != f"+{MATCHES}{MATCHES}"
    ]
    assert wrong == []


def test_the_table_is_that_of_the_package() -> None:
    quoted = regex.findall('"([^"]*)"', HEADER.read_text())
    assert "".join(quoted) == "".join(regex.findall('"([^"]*)"', header()))


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        (r"^[\p{L}\p{M}' -]+$", ["Zoë O'Neill", "Ольга", "李雷", "अनिता"], ["R2", "a_b", ""]),
        (r"^\p{Lu}\p{Ll}*$", ["Élan", "Ω", "Жук"], ["élan", "ÉLAN", "A1"]),
        (r"^[^\p{Nd}\p{P}\s]{1,3}$", ["ab€", "½"], ["a٣", "a-b", "a b", "abcd"]),
        (r"^\P{L}+$", ["12 €", "…"], ["12 a"]),
        (r"^\p{Script=Cyrillic}+ \p{sc=Grek}\p{Han}$", ["мир α海"], ["mir α海", "мир a海"]),
        (r"^\p{General_Category=Decimal_Number}{2}\p{gc=Sc}\p{Letter}$", ["٣4€x"], ["½4€x"]),
    ],
)
def test_patterns_with_properties(
    cpp_build: Path, pattern: str, right: list[str], wrong: list[str]
) -> None:
    schema = {"type": "string", "pattern": pattern}
    texts = [json.dumps(text, ensure_ascii=False) for text in right + wrong]
    expected = [True] * len(right) + [False] * len(wrong)
    assert accepts(cpp_build, "json-schema", schema, texts) == expected
    assert accepts(cpp_build, "regex", pattern, right + wrong) == expected
    both = {"type": "string", "pattern": pattern, "maxLength": 20}
    assert accepts(cpp_build, "json-schema", both, texts) == expected


@pytest.mark.parametrize("name", ["Emoji", "Script=Klingon", "gc=Latin", "sc=L", "l", ""])
def test_other_properties_are_refused_by_their_place(cpp_build: Path, name: str) -> None:
    said = refusal(cpp_build, "regex", rf"a[\p{{{name}}}]")
    assert f"at offset 2: the Unicode property '{name}' is not supported" in said
    assert "such as L or Lu, and the scripts Latin, " in said
    assert "braces" in refusal(cpp_build, "regex", r"\pL")
