"""Names of nodes, by their line of the exported Python, and of weights, for messages."""

import re
import sys
from pathlib import Path

import torch
from torch.fx import Node

_FRAME = re.compile(r'File "(.+?)", line (\d+), in ')
_TORCH = Path(torch.__file__).parent
UNKNOWN = "an unknown line"


def source_line(node: Node) -> str:
    """Returns the innermost line of the model that made the node, such as
    `exporter/models/norm.py:19`.

    The file is named as it is imported, without the machine's own directories.
    """
    return line_of_trace(str(node.meta.get("stack_trace") or ""))


def line_of_trace(trace: str) -> str:
    """The same for a text that contains a stack trace."""
    frames = _FRAME.findall(trace)
    if not frames:
        return UNKNOWN
    file, number = (_own(frames) or frames)[-1]
    return f"{as_imported(Path(file))}:{number}"


def has_own_line(trace: str) -> bool:
    """Whether a stack trace has a line that is not torch's."""
    return bool(_own(_FRAME.findall(trace)))


def _own(frames: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [frame for frame in frames if not Path(frame[0]).is_relative_to(_TORCH)]


def as_imported(file: Path) -> str:
    """Returns the path relative to the longest entry of the search path, else only the file's
    name."""
    roots = [Path(entry).resolve() for entry in sys.path]
    inside = [root for root in roots if file.is_relative_to(root)]
    longest = max(inside, key=lambda root: len(root.parts), default=file.parent)
    return file.relative_to(longest).as_posix()


def shown_name(name: str) -> str:
    """Returns a weight's name without the suffix of its parts, such as `.values`."""
    name = re.sub(r"parametrizations\.(\w+)\.original\d+$", r"\1", name)
    return re.sub(r"\.values$", ".weight", name)
