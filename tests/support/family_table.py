"""The table of families in exporter/models/families/README.md, of their test data.

    PYTHONPATH=tests python -m support.family_table

prints it.
"""

from pathlib import Path

from support.families import FAMILIES
from support.family_data import FamilyData, Row

README = Path(__file__).resolve().parents[2] / "exporter" / "models/families/README.md"
HEAD = """\
| family (`model_type`) | beyond Llama | parity | one call, all of it | in pieces | refused |
|---|---|---|---|---|---|
"""


def family_table() -> str:
    """The rows in the order of their names, behind that with nothing beyond Llama."""
    rows = []
    for name, data in FAMILIES.items():
        if isinstance(data.row, Row):
            others = {key: one for key, one in FAMILIES.items() if one.row == name}
            models = ", ".join(_named(*item) for item in {name: data, **others}.items())
            row = data.row
            cells = (models, row.beyond, row.parity, row.whole, row.pieces, row.refused)
            line = "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)
            rows.append((bool(row.beyond), models.lower(), line))
    return HEAD + "".join(f"{row}\n" for _, _, row in sorted(rows))


def _named(model_type: str, data: FamilyData) -> str:
    return f"{data.models} (`{model_type}`)"


if __name__ == "__main__":
    print(family_table(), end="")
