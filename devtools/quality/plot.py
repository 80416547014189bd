"""KL divergence against bits, as one picture."""

from collections.abc import Sequence
from pathlib import Path

from devtools.quality.rows import OURS, THEIRS, Row


def draw_quality(rows: Sequence[Row], texts: Sequence[str], model: str, out: Path) -> None:
    """Draws a panel a text: KL on a logarithmic axis against bits, a curve for each engine."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * len(texts), 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(texts), squeeze=False, sharey=True)[0]
    for panel, text in zip(panels, texts, strict=True):
        for engine, marker in ((THEIRS, "s"), (OURS, "o")):
            own = sorted((row for row in rows if row.engine == engine), key=lambda row: row.bits)
            if not own:
                continue
            kl, errors = zip(*(row.kl[text] for row in own), strict=True)
            bits = [row.bits for row in own]
            panel.errorbar(bits, kl, errors, marker=marker, capsize=2, label=engine)
            for row in own:
                above = row.beside is None  # one beside another is close to the next of its kind
                place, side = ((4, 4), "left") if above else ((-4, -10), "right")
                panel.annotate(
                    row.name,
                    (row.bits, row.kl[text][0]),
                    place,
                    textcoords="offset points",
                    fontsize="x-small",
                    ha=side,
                )
        panel.set_yscale("log")
        panel.margins(x=0.12)
        panel.grid(True, which="both", alpha=0.3)
        panel.set_title(text)
        panel.set_xlabel("bits of a number, all counted")
    panels[0].set_ylabel("KL divergence from float, nats")
    panels[0].legend()
    figure.suptitle(model)
    figure.savefig(out, dpi=130)
