"""The text of the files whose lines a profile names, where it is still that of the export."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from devtools.profile.profile_types import Call, Line


def unchanged_sources(calls: Sequence[Call], files: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts of files that exist here and in which every line in question is the same as
    at the export.

    Args:
        files: the exporting machine's names, by the short ones.
    """
    by_file: dict[str, set[Line]] = defaultdict(set)
    for call in calls:
        for event in call.events:
            for line in (*event.lines, *event.stack):
                by_file[line.file].add(line)
    texts = {}
    for name, lines in by_file.items():
        for path in (Path(files.get(name, name)), Path(name)):
            text = _read(path)
            if text is not None and _still_says(text, lines):
                texts[name] = text
                break
    return texts


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _still_says(text: str, lines: Iterable[Line]) -> bool:
    rows = text.splitlines()
    return all(line.number <= len(rows) and line.text in rows[line.number - 1] for line in lines)
