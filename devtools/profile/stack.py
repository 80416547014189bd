"""Stack traces that torch.export kept, as lines of source."""

import re
from collections.abc import Iterable

from devtools.profile.profile_types import Line

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in ([^\n]+)(?:\n(?!\s*File ")[ \t]*([^\n]*))?')
_PACKAGES = ("/site-packages/", "/dist-packages/")
# Of code that stands between a model's line and the operator: torch, and Python itself.
_MACHINERY = re.compile(
    r"(?:^|/)(?:torch|torchao|executorch)/|/lib/python3\.\d+/(?!site-packages/)"
)


def parse_stack(trace: str) -> tuple[Line, ...]:
    """The frames of a trace, the outermost first; files as the exporting machine named them."""
    return tuple(
        Line(file, int(number), function.strip(), (text or "").strip())
        for file, number, function, text in _FRAME.findall(trace)
    )


def own_stack(frames: tuple[Line, ...]) -> tuple[Line, ...]:
    """The frames down to the innermost one that is of the model: not of torch, nor of Python.

    Empty if there is none, as for nodes that the exporter inserted.
    """
    for end in range(len(frames), 0, -1):
        file = frames[end - 1].file.replace("\\", "/")
        below = next((file.split(mark, 1)[1] for mark in _PACKAGES if mark in file), file)
        if not _MACHINERY.search(below):
            return frames[:end]
    return ()


class ShortNames:
    """Files by their names below the directories that modules are imported from."""

    def __init__(self, files: Iterable[str], modules: Iterable[str]) -> None:
        """
        Args:
            files: as the exporting machine named them.
            modules: names of modules that were imported there, such as exporter.model.
        """
        endings = {"/" + module.replace(".", "/") + ".py" for module in modules}
        roots = {
            file[: -len(ending) + 1]
            for file in files
            for ending in endings
            if file.endswith(ending)
        }
        self._roots = sorted(roots, key=len, reverse=True)

    def shorten(self, file: str) -> str:
        for mark in _PACKAGES:
            if mark in file:
                return file.split(mark, 1)[1]
        for root in self._roots:
            if file.startswith(root):
                return file[len(root) :]
        return file
