"""A run as one picture: each engine's speed and the machine's limit."""

from pathlib import Path
from typing import Any

from devtools.errors import BadRequest

_ENDINGS = (".png", ".svg", ".pdf")


def require_plotting(out: Path) -> None:
    """
    Raises:
        BadRequest: out is not a picture file, or matplotlib is missing.
    """
    if out.suffix.lower() not in _ENDINGS:
        raise BadRequest(f"{out} is not a picture; name a file that ends in {', '.join(_ENDINGS)}.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise BadRequest(
            "The package matplotlib is missing, and --plot draws with it: pip install matplotlib."
        ) from None


def draw(report: dict[str, Any], out: Path) -> None:
    """Draws the report of devtools.bench.report to an image file: tokens a second of each workload,
    a panel per number of threads, bars in the order of the engines, the limit of ours as a line."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    threads = report["settings"]["threads"]
    measured = {result["kind"] for result in report["results"]}
    kinds = [kind for kind in ("prefill", "decode", "sequences") if kind in measured]
    figure = Figure(figsize=(11, 3.4 * len(threads)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(threads), len(kinds), squeeze=False)
    for row, count in zip(panels, threads, strict=True):
        for panel, kind in zip(row, kinds, strict=True):
            _draw_panel(panel, report, count, kind)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    model, machine = report["model"], report["machine"]
    figure.supxlabel(f"{model['name']}, {model['scheme']}, on {machine['cpu']}", fontsize="small")
    figure.savefig(out, dpi=130)


def _draw_panel(panel: Any, report: dict[str, Any], threads: int, kind: str) -> None:
    results = [
        result
        for result in report["results"]
        if result["threads"] == threads and result["kind"] == kind
    ]
    works = list(dict.fromkeys(result["work"] for result in results))
    measured = {result["engine"] for result in report["results"]}
    engines = [engine["name"] for engine in report["engines"] if engine["name"] in measured]
    width = 0.8 / len(engines)
    for place, engine in enumerate(engines):
        own = {result["work"]: result for result in results if result["engine"] == engine}
        left = [index - 0.4 + place * width for index in range(len(works))]
        heights = [own[work]["tokens_per_s"] if work in own else 0.0 for work in works]
        panel.bar(left, heights, width * 0.94, align="edge", label=engine)
        if place == 0:
            _draw_limits(panel, works, own)
    panel.set_xticks(range(len(works)), works)
    panel.set_ylabel("tokens/s")
    panel.set_title(f"{threads} thread" + ("" if threads == 1 else "s"))
    panel.spines[["top", "right"]].set_visible(False)


def _draw_limits(panel: Any, works: list[str], own: dict[str, dict[str, Any]]) -> None:
    label = "the machine's limit for it"
    for index, work in enumerate(works):
        limit = own[work]["limit_tokens_per_s"] if work in own else None
        if limit is not None:
            panel.hlines(limit, index - 0.45, index + 0.45, colors="black", label=label)
            label = "_"
