"""What thimble.h declares."""

import re
from pathlib import Path

HEADER = Path(__file__).resolve().parents[2] / "runtime" / "cpp" / "c_interface" / "thimble.h"


def _code() -> str:
    text = HEADER.read_text(encoding="utf-8")
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def functions() -> dict[str, int]:
    """The number of parameters of each function."""
    found = re.findall(r"THIMBLE_API[^;(]*?(thimble_\w+)\(([^)]*)\)\s*;", _code())
    return {
        name: 0 if parameters.strip() == "void" else parameters.count(",") + 1
        for name, parameters in found
    }


def structs() -> dict[str, tuple[str, ...]]:
    """The fields of each struct."""
    found = re.findall(r"typedef struct \{([^}]*)\} (thimble_\w+);", _code())
    return {name: tuple(re.findall(r"(\w+)\s*;", fields)) for fields, name in found}


def constants() -> set[str]:
    return set(re.findall(r"(THIMBLE_\w+) = \d", _code()))
