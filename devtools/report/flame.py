"""The module tree with the time spent in it, as the page's flame graph reads it.

A frame is {"n": name, "t": [prefill ns, decode ns], "c": [frames]}, with "l", a line's location,
where all its time is of one line. The frames inside one lie within its time.
"""

from typing import Any

from devtools.profile.profile_types import Event, Phase, Profile

_LAYERS = "layers"
_OVERHEADS = ("delegates' overhead", "the runtime's overhead")
_SMALL = 0.0005  # of the run: frames below it are drawn as one

Frame = dict[str, Any]


def flame(profile: Profile, merge_layers: bool) -> Frame:
    """
    Args:
        merge_layers: draw all decoder layers as one.
    """
    root: Frame = {"n": "model call", "t": [0, 0], "c": {}}
    layers = {event.layer for call in profile.calls for event in call.events} - {None}
    merged = f"{len(layers)} layers" if merge_layers and len(layers) > 1 else ""
    for call in profile.calls:
        phase = 0 if call.phase is Phase.PREFILL else 1
        root["t"][phase] += call.wall_ns
        for event in call.portions:
            _add(root, _path(event, merged), phase, event)
        for name, time in (
            (_OVERHEADS[0], call.delegate_overhead_ns),
            (_OVERHEADS[1], call.runtime_overhead_ns),
        ):
            _frame(root, name)["t"][phase] += max(0, time)
    return _finish(root, _SMALL * sum(root["t"]))


def _path(event: Event, merged: str) -> list[str]:
    """The modules down to the operator; events without a line stand beside the model."""
    kind = event.kind
    if not event.lines:
        return ["no line", kind]
    path: list[str] = []
    parts = event.module_path.split(".") if event.module_path else []
    for part in parts:
        if part.isdecimal() and path and path[-1] == _LAYERS:
            path[-1:] = [merged] if merged else [f"{_LAYERS}.{part}"]
        else:
            path.append(part)
    return [*path, kind]


def _add(root: Frame, path: list[str], phase: int, event: Event) -> None:
    frame = root
    for name in path:
        frame = _frame(frame, name)
        frame["t"][phase] += event.duration_ns
    frame.setdefault("lines", set()).add(event.line.location if event.line else "")


def _frame(parent: Frame, name: str) -> Frame:
    return parent["c"].setdefault(name, {"n": name, "t": [0, 0], "c": {}})


def _finish(frame: Frame, small: float) -> Frame:
    children = [child for child in frame["c"].values() if sum(child["t"]) > 0]
    children.sort(key=lambda child: (child["n"] in _OVERHEADS, -sum(child["t"])))
    shown = [child for child in children if sum(child["t"]) >= small]
    rest = [child for child in children if sum(child["t"]) < small]
    finished: Frame = {"n": frame["n"], "t": frame["t"]}
    if shown:
        finished["c"] = [_finish(child, small) for child in shown]
    if rest:
        times = [sum(child["t"][phase] for child in rest) for phase in (0, 1)]
        finished.setdefault("c", []).append({"n": f"{len(rest)} small ones", "t": times})
    lines = frame.get("lines", set())
    if len(lines) == 1 and "" not in lines:
        (finished["l"],) = lines
    return finished
