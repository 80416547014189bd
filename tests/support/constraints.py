"""Constraints in C++, at the end of a pipe: runtime/cpp/tests/constraint_cli.cpp."""

import json
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from support.cpp_programs import ask, frame, frame_texts

# How a text stands to a constraint.
REFUSED, BEGINS, MATCHES, ENDS = "0", "-", "1", "2"


def constraint_text(constraint: object) -> bytes:
    """A constraint's text: bytes and strings as they are, others as JSON."""
    if isinstance(constraint, bytes):
        return constraint
    text = constraint if isinstance(constraint, str) else json.dumps(constraint, ensure_ascii=False)
    return text.encode("utf-8")


def places(
    build: Path, kind: str, constraint: object, texts: list[str] | list[bytes]
) -> list[str] | str:
    """Where each text stands (REFUSED, BEGINS, MATCHES or ENDS), or why the constraint is refused.

    Args:
        kind: json-schema, regex, choice or grammar.
    """
    given = [text if isinstance(text, bytes) else text.encode("utf-8") for text in texts]
    request = frame_texts([kind.encode(), constraint_text(constraint), *given])
    (answer,) = ask([build / "constraint_cli", "texts"], [request], 1)
    said = answer.decode("utf-8")
    return list(said[1:]) if said.startswith("+") else said


def accepts(build: Path, kind: str, constraint: object, texts: list[str]) -> list[bool]:
    """Whether each text matches."""
    found = places(build, kind, constraint, texts)
    assert isinstance(found, list), found
    return [place in (MATCHES, ENDS) for place in found]


def refusal(build: Path, kind: str, constraint: object) -> str:
    """The sentence that refuses a constraint."""
    found = places(build, kind, constraint, [])
    assert isinstance(found, str), "it is not refused"
    return found


def forced(build: Path, kind: str, constraint: object, text: str) -> bytes:
    """The bytes that must follow a text."""
    request = frame_texts([kind.encode(), constraint_text(constraint), text.encode("utf-8")])
    (answer,) = ask([build / "constraint_cli", "forced"], [request], 1)
    return answer


def masks(
    build: Path,
    tokens: list[bytes],
    ends: list[int],
    cases: list[tuple[str, object, list[int]]],
    names: list[str] | None = None,
) -> list[list[NDArray[np.bool_]]]:
    """For each case (kind, constraint, ids) the tokens that are allowed at first and after each id,
    as far as the ids are allowed.

    Args:
        tokens: the bytes of each, empty for special ones.
        names: of the tokens that a grammar can name; empty for the others.
    """
    vocabulary = frame_texts(tokens) + frame(struct.pack(f"<{len(ends)}i", *ends), 4)
    requests = [vocabulary + frame_texts([name.encode("utf-8") for name in names or []])]
    for kind, constraint, ids in cases:
        texts = frame_texts([kind.encode(), constraint_text(constraint)])
        requests.append(texts + frame(np.array(ids, dtype="<i4").tobytes(), 4))
    found: list[list[NDArray[np.bool_]]] = []
    for answer in ask([build / "constraint_cli", "masks"], requests, 1):
        if answer == b"+":
            found.append([])
            continue
        assert len(answer) == 4 * ((len(tokens) + 31) // 32), answer.decode()
        bits = np.unpackbits(np.frombuffer(answer, np.uint8), bitorder="little")
        found[-1].append(bits[: len(tokens)].astype(bool))
    return found
