"""Files that no writer makes, drawn by hypothesis: good ones with parts changed, moved or cut.

What a test draws is the same in every run; `THIMBLE_EXAMPLES` asks for as many others.
"""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from support.json_mutations import VALUES, mutated, nodes

ASKED = os.environ.get("THIMBLE_EXAMPLES")
MOST_MEMORY = 1 << 30  # bytes, beside what the process has: no reader may ask for more
ODD_SIZES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63)
ODD_JSON = (*VALUES, 10**400, -(10**30), 1e-320, 10**18, 2**31 - 1, 2**63 - 1, "a\nb", ["x"] * 70)

hostile = settings(
    max_examples=int(ASKED or 40),
    derandomize=ASKED is None,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def little_memory() -> Iterator[None]:
    """Fails an allocation in the block that is far larger than any file here needs."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def numbers() -> st.SearchStrategy[bytes]:
    """Little endian, of 1 to 8 bytes: those at the ends of their types more often."""
    return st.builds(
        lambda value, width: (value % (1 << 8 * width)).to_bytes(width, "little"),
        st.sampled_from(ODD_SIZES) | st.integers(0, 2**64 - 1),
        st.sampled_from((1, 2, 4, 8)),
    )


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Some bytes of a file written over, taken out, repeated or cut off."""
    for _ in range(draw(st.integers(1, 4))):
        most = draw(st.sampled_from((512, len(content))))  # a header more often than the rest
        at = draw(st.integers(0, max(0, min(len(content), most) - 1)))
        end = at + draw(st.integers(1, 64))
        kind = draw(st.sampled_from(("number", "bytes", "out", "again", "cut")))
        if kind in ("number", "bytes"):
            new = draw(numbers() if kind == "number" else st.binary(min_size=1, max_size=12))
            content = content[:at] + new + content[at + len(new) :]
        elif kind == "out":
            content = content[:at] + content[end:]
        elif kind == "again":
            content = content[:end] + content[at:]
        else:
            content = content[:at]
    return content


def any_bytes(content: bytes) -> st.SearchStrategy[bytes]:
    """A file that was damaged, or one that never was of its kind."""
    return damaged(content) | st.binary(max_size=200).map(lambda tail: content[:16] + tail)


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """A JSON document with some nodes replaced or removed."""
    for _ in range(draw(st.integers(1, 3))):
        value = draw(st.sampled_from(ODD_JSON) | _json())
        document = mutated(document, draw(st.sampled_from(list(nodes(document)))), value)
    return document


def _json() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=5,
    )


def read_or_refused(read: Callable[[], object], error: type[Exception]) -> None:
    """Reads something: the result is a value, or one sentence of ours."""
    try:
        with little_memory():
            read()
    except error as refused:
        sentence = str(refused)
        assert sentence.endswith(".") and sentence.isprintable(), sentence
