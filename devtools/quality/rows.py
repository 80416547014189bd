"""The rows of a comparison of quality, and their table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

OURS, THEIRS = "thimble", "llama.cpp"


@dataclass(frozen=True)
class Row:
    """One quantized file.

    Attributes:
        engine: OURS or THEIRS.
        name: of the scheme or type.
        bits: of a number on average, all of the file's numbers and their scales counted.
        kl: KL divergence from the float model in nats, and its standard error, for each text.
        beside: the type of the other engine at whose bits this file was made; None if at none's.
    """

    engine: str
    name: str
    bits: float
    kl: dict[str, tuple[float, float]]
    beside: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def table_of(rows: Sequence[Row], texts: Sequence[str]) -> Table:
    """A line for each file, by bits; those made at another's bits show the ratio of KL to it."""
    table = Table("file", "bits", *(f"KL x 1000, {text}" for text in texts), "to the one beside")
    for column in table.columns[1:]:
        column.justify = "right"
    theirs = {row.name: row for row in rows if row.engine == THEIRS}
    for row in sorted(rows, key=lambda row: (row.bits, row.engine)):
        other = theirs.get(row.beside or "")
        ratios = [f"{row.kl[text][0] / other.kl[text][0]:.2f}" for text in texts] if other else []
        shown = [_thousandths(*row.kl[text]) for text in texts]
        table.add_row(f"{row.engine} {row.name}", f"{row.bits:.2f}", *shown, ", ".join(ratios))
    return table


def _thousandths(kl: float, error: float) -> str:
    """With a second digit where the error would else be shown as zero."""
    digits = 1 if 1000 * error >= 0.05 else 2
    return f"{1000 * kl:.{digits}f} ± {1000 * error:.{digits}f}"
