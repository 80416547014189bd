"""Where a line of the model's source is, as reports name it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def model_line(code: str) -> str:
    """The place of the one line of exporter/models/ that begins so."""
    (place,) = [
        f"{path.relative_to(ROOT).as_posix()}:{number}"
        for path in sorted((ROOT / "exporter" / "models").glob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.strip().startswith(code)
    ]
    return place


def code_at(place: str) -> str:
    """The line at such a place, without its indentation."""
    path, _, number = place.rpartition(":")
    return (ROOT / path).read_text(encoding="utf-8").splitlines()[int(number) - 1].strip()
