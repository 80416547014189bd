"""Writes runtime/cpp/constraint/unicode_runs.h: general categories and scripts as `regex` has them.

python tests/support/unicode_runs.py
"""

import re
import textwrap
from pathlib import Path

import regex

HEADER = Path(__file__).parents[2] / "runtime/cpp/constraint/unicode_runs.h"
CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn"
).split()
SCRIPTS = {
    **{"Latin": "Latn", "Greek": "Grek", "Cyrillic": "Cyrl", "Han": "Hani", "Hiragana": "Hira"},
    **{"Katakana": "Kana", "Hangul": "Hang", "Arabic": "Arab", "Hebrew": "Hebr", "Thai": "Thai"},
    "Devanagari": "Deva",
}
# No quote, backslash or question mark, which C++ reads otherwise.
SYMBOLS = "".join(c for c in map(chr, range(ord("#"), ord("~") + 1)) if c not in "\\?")
DIGITS = len(SYMBOLS) // 2
EVERY = "".join(chr(n) for n in range(0x110000) if not 0xD800 <= n < 0xE000)


def ranges_of(name: str) -> list[tuple[int, int]]:
    """The code points of a property: the first and the last of each range."""
    found = regex.finditer(rf"\p{{{name}}}+", EVERY)
    return [(ord(match[0][0]), ord(match[0][-1])) for match in found]


def number(value: int) -> str:
    """A number in digits, the last one marked by being small."""
    text = SYMBOLS[value % DIGITS]
    while value := value // DIGITS:
        text = SYMBOLS[DIGITS + value % DIGITS] + text
    return text


def category_runs() -> str:
    """Every code point's category: of each run one symbol for the category and for a length of 1,
    of 2, or of 3 and the number behind it."""
    runs = sorted((*one, n) for n, name in enumerate(CATEGORIES) for one in ranges_of(name))
    text = ""
    for first, last, category in runs:
        length = last - first + 1
        text += SYMBOLS[3 * category + min(length, 3) - 1] + (
            number(length - 3) if length > 2 else ""
        )
    return text


def script_runs(name: str) -> str:
    """Of each range the code points before it, without those of the one before, and its own."""
    text, at = "", 0
    for first, last in ranges_of(f"Script={name}"):
        text += number(first - at) + number(last - first)
        at = last + 1
    return text


def literal(text: str, indent: str) -> str:
    lines = [text[n : n + 90] for n in range(0, len(text), 90)]
    return "\n".join(f'{indent}"{line}"' for line in lines)


def header() -> str:
    names = ",\n".join(textwrap.wrap(", ".join(f'"{name}"' for name in CATEGORIES), 92)).replace(
        ",,", ","
    )
    scripts = ",\n".join(
        f'    {{"{name}", "{short}",\n{literal(script_runs(name), "     ")}}}'
        for name, short in SCRIPTS.items()
    )
    return f"""\
#pragma once

// Written by tests/support/unicode_runs.py, which says what the texts mean.

#include <string_view>

namespace thimble {{

constexpr std::string_view kCategories[] = {{
{textwrap.indent(names, "    ")}}};

/// The category of each code point that is no surrogate.
constexpr std::string_view kCategoryRuns =
{literal(category_runs(), "    ")};

struct Script {{
  std::string_view name, short_name, runs;
}};

constexpr Script kScripts[] = {{
{scripts}}};

}}  // namespace thimble
"""


if __name__ == "__main__":
    text = header()
    assert not re.search("[^\n -~]", text)
    HEADER.write_text(text)
