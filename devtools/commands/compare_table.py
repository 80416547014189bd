"""The output of `python -m devtools compare`."""

import math

from rich.console import Console
from rich.table import Table

from devtools.compare.figures import Distance
from devtools.compare.outcome import Outcome
from devtools.compare.routing import LayerRouting
from devtools.compare.rows import CALL, DECODE, OUTLIER, PREFILL, Row
from devtools.format_numbers import counted
from devtools.profile.profile_types import Line
from exporter.command_line.tables import table_console

_WIDTH = 120  # of a table that goes to a file
_MOST_FLIPS = 8  # that are named, of a layer
_PAIRS = {
    "quantized_beside_float": "quantized model / float model",
    "program_beside_quantized": "program / quantized model",
    "program_beside_float": "program / float model",
    "program_beside_routed": "program / quantized model, with the program's experts",
}


def show(outcome: Outcome) -> None:
    """Prints the lines, the verdict and the logits."""
    console = table_console(_WIDTH)
    facts = outcome.facts
    if "tokens" not in facts:
        return _show_module(console, outcome)
    console.print(
        f"{facts['model']}: {facts['scheme']} on {facts['delegate']}, beside "
        f"{facts['checkpoint']}; {counted(facts['prefill_tokens'], 'token')} at once, "
        f"{facts['decode_tokens']} one by one",
        markup=False,
        soft_wrap=True,
    )
    table = Table("layer", "line", "module", "operator", box=None, pad_edge=False)
    for name in ("weights", "quantized", "prefill", "decode", "max error"):
        table.add_column(name, justify="right")
    marked = {row.sink.order for row in (*outcome.odd, *([outcome.wrong] if outcome.wrong else []))}
    for row in outcome.comparison.rows:
        table.add_row(*_cells(row), style="bold red" if row.sink.order in marked else None)
    console.print(table)
    console.print(
        "Signal-to-noise ratio in dB, more is better. The column weights is of the line's weights "
        "alone, compared with the float ones on the same input. The column quantized compares the "
        "quantized model with the float model, including all earlier errors. The others compare "
        "the program with the quantized model, both on the program's input of the layer.",
        soft_wrap=True,
    )
    _limits(console, outcome, "layer")
    _verdict(console, outcome)
    _routing(console, outcome)
    for name, item in outcome.logits.items():
        console.print(
            f"logits, {_PAIRS[name]}: KL {item.kl:.2e} nats, top-1 {item.top1:.1%} "
            f"({item.positions} positions)"
        )
    for name, cosine in outcome.cosines.items():
        console.print(f"the text's row, {_PAIRS[name]}: cosine {cosine:.6f}")


def _show_module(console: Console, outcome: Outcome) -> None:
    facts, rows = outcome.facts, outcome.comparison.rows
    console.print(
        f"{facts['model']}: {facts['scheme']} on {facts['delegate']}, beside {facts['checkpoint']} "
        "in float, on its example",
        markup=False,
        soft_wrap=True,
    )
    table = Table("line", "module", "operator", box=None, pad_edge=False)
    for name in ("alone", "so far", "max error"):
        table.add_column(name, justify="right")
    worst = max(rows, key=lambda row: row.program_error)
    marked = outcome.wrong if facts["scheme"] == "none" else worst
    for row in rows:
        _, line, module, operator, *_, error = _cells(row)
        alone, so_far = _shown(row.program[CALL]), _shown(row.program_so_far)
        style = "bold red" if row is marked else None
        table.add_row(line, module, operator, alone, so_far, error, style=style)
    console.print(table)
    console.print(
        "Signal-to-noise ratio in dB, more is better. The columns compare the program with the "
        "float module. For the column alone, each of its modules reads what the program computed "
        "before it. The column so far includes all earlier errors.",
        soft_wrap=True,
    )
    _limits(console, outcome, "line of the module")
    if facts["scheme"] == "none":
        return _verdict_of_program(console, outcome, "float module")
    name = _named(worst, worst.sink.place.module_path, worst.sink.lines[0])
    console.print(
        f"program: what differs most is {name}: relative error {worst.program_error:.2g}",
        markup=False,
        soft_wrap=True,
    )


def _limits(console: Console, outcome: Outcome, owner: str) -> None:
    """What the program does not show, and what no `owner` has."""
    if any(row.sink.at_boundary for row in outcome.comparison.rows):
        console.print(
            f"{outcome.facts['delegate']} shows only the outputs of a delegate call: a line "
            "represents its complete call."
        )
    if outcome.comparison.unmatched:
        console.print(
            f"not compared: {len(outcome.comparison.unmatched)} outputs that belong to no {owner}"
        )


def _verdict(console: Console, outcome: Outcome) -> None:
    _verdict_of_program(console, outcome, "quantized model")
    if not outcome.odd:
        console.print(
            f"weights: no line's error is more than {OUTLIER:g} times the usual one in this model"
        )
    for row in outcome.odd:
        if row.weights is not None:
            console.print(
                f"weights: those of {_named(row, row.weights.module_path, row.weights.line)} are "
                "not a rounding of the checkpoint's: relative error "
                f"{row.weights.distance.relative:.2g}, more than {OUTLIER:g} times the usual one "
                "in this model",
                markup=False,
                soft_wrap=True,
            )


def _verdict_of_program(console: Console, outcome: Outcome, reference: str) -> None:
    wrong = outcome.wrong
    assert outcome.tolerance is not None
    if wrong is None:
        console.print(
            f"program: no line differs from the {reference} by more than rounding explains "
            f"({decibels(-20 * math.log10(outcome.tolerance))} dB)"
        )
    else:
        console.print(
            f"program: first divergence at "
            f"{_named(wrong, wrong.sink.place.module_path, wrong.sink.lines[0])}: relative error "
            f"{wrong.program_error:.2g}, but rounding explains only {outcome.tolerance:.2g}",
            markup=False,
            soft_wrap=True,
        )


def _routing(console: Console, outcome: Outcome) -> None:
    """Which tokens the program gives to other experts, by layer."""
    layers = outcome.comparison.routing
    if not layers:
        return
    compared = sum(layer.tokens for layer in layers)
    flips = [flip for layer in layers for flip in layer.flips]
    if not flips:
        console.print("routing: all tokens go to the experts that the quantized model chooses")
        return
    console.print(
        f"routing: {len(flips)} of {compared} choices of experts differ from the quantized "
        "model's, where rounding decides between almost equal scores",
        soft_wrap=True,
    )
    for layer in layers:
        if layer.flips:
            console.print(f"  {_flips(layer)}", markup=False, soft_wrap=True)


def _flips(layer: LayerRouting) -> str:
    shown = ", ".join(
        f"{flip.position} ({_experts(flip.left)} to {_experts(flip.taken)})"
        for flip in layer.flips[:_MOST_FLIPS]
    )
    left = len(layer.flips) - _MOST_FLIPS
    more = f" and {left} more" if left > 0 else ""
    widest = max(flip.margin for flip in layer.flips) / layer.deviation
    return (
        f"{layer.module_path}: token {shown}{more}; scores at most {widest:.2g} of their deviation "
        "apart"
    )


def _experts(numbers: tuple[int, ...]) -> str:
    return "+".join(map(str, numbers))


def _named(row: Row, module_path: str, line: Line) -> str:
    layer = "" if row.layer is None else f"layer {row.layer}"
    text = f" ({line.text})" if line.text else ""
    return ", ".join(filter(None, (line.location, layer, module_path))) + text


def _cells(row: Row) -> tuple[str, ...]:
    place = row.sink.place
    module = place.module_path
    if row.layer is not None:
        module = module.split(f"layers.{row.layer}", 1)[1].removeprefix(".") or "residual"
    return (
        "" if row.layer is None else str(row.layer),
        row.sink.lines[0].location,
        module,
        place.operator,
        _shown(row.weights.distance if row.weights else None),
        _shown(row.quantized_so_far),
        *(_shown(row.program.get(phase)) for phase in (PREFILL, DECODE)),
        f"{max(item.max_error for item in row.program.values()):.1e}",
    )


def _shown(item: Distance | None) -> str:
    return "" if item is None else decibels(item.snr_db)


def decibels(number: float) -> str:
    """Returns a text such as 31.4; `same` if nothing differs."""
    if number == math.inf:
        return "same"
    return "none" if number == -math.inf else f"{number:.1f}"
