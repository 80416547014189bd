"""The float model and the quantized one, a decoder layer at a time, each watched as it runs.

The float weights come from the checkpoint; the quantized ones are those of the export itself, from
its ETRecord, where they stand as they were before any delegate packed them: so a fault of packing
or of a kernel shows in the program, one of quantization in the weights.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from devtools.compare.figures import Distance, distance
from devtools.compare.graph_values import LoggedRows, positions
from devtools.compare.recording import Recorder
from devtools.compare.routing import LayerRouting, compare_routing
from devtools.compare.rows import (
    Calls,
    Comparison,
    Row,
    Stage,
    compare_stage,
    program_rows,
    stacked,
)
from exporter.checkpoint import Checkpoint
from exporter.models.context import CachedContext
from exporter.models.decoder import LAYER_INPUTS, CausalLM, MixerModule
from exporter.models.experts import Experts
from exporter.models.experts_operator import route, routed_by
from quant.layers.walk import float_walk
from quant.modules import QuantizedEmbedding, QuantizedLinear

# Of the float model, the quantized one, the program; and, where there are experts, of the quantized
# one with the program's.
Streams = tuple[Tensor, ...]
Run = Callable[[CausalLM, Tensor, CachedContext], Tensor]

_METHODS = "scale_embedding", "finish_logits"  # of CausalLM, outside every forward


@dataclass(frozen=True)
class Logits:
    """float32 (tokens, vocab_size) of each model, all positions.

    Attributes:
        routed: of the quantized model with the program's choices of experts; None: it has none.
    """

    floats: Tensor
    quantized: Tensor
    routed: Tensor | None


@torch.no_grad()
def compare_models(
    checkpoint: Checkpoint,
    quantized: CausalLM,
    tokens: Tensor,
    logged: Sequence[LoggedRows],
    calls: Calls,
) -> tuple[Comparison, Logits]:
    """Runs both models over a text and puts them beside what the program logged of it.

    Args:
        quantized: with all its weights.
        tokens: int64 (tokens,).
        logged: what the program computed.
        calls: how the program was given the text.
    """
    return _Pass(checkpoint, quantized, tokens, logged, calls).run()


class _Pass:
    def __init__(
        self,
        checkpoint: Checkpoint,
        quantized: CausalLM,
        tokens: Tensor,
        logged: Sequence[LoggedRows],
        calls: Calls,
    ) -> None:
        self._checkpoint = checkpoint
        self._quantized = quantized
        with torch.device("meta"):
            self._float = CausalLM(checkpoint.config).eval()
        self._tokens = tokens[None]
        self._logged = list(logged)
        self._calls = calls
        ropes = self._float.context(len(tokens)).ropes
        self._streams = 4 if any(isinstance(m, Experts) for m in quantized.modules()) else 3
        self._contexts = [CachedContext(ropes, 0, {}) for _ in range(self._streams)]
        self._rows: list[Row] = []
        self._routing: list[LayerRouting] = []

    def run(self) -> tuple[Comparison, Logits]:
        self._load("model.embed_tokens")
        tokens = (self._tokens,) * self._streams
        streams = self._stage("", lambda model, x, _: model.embed(x), tokens)
        if self._float.config.layer_input is not None:
            self._make_inputs(streams)
        for stop in float_walk(self._float, self._checkpoint):
            streams = self._stage(stop.name, self._layer(stop.name), streams)
        self._load("model.norm")
        self._load("lm_head")
        logits = self._stage("", lambda model, x, _: model.head(x), streams)
        rows = sorted(self._rows, key=lambda row: row.sink.order)
        unmatched = [item.sink for item in self._logged]
        routed = logits[3][0] if len(logits) == 4 else None
        return (
            Comparison(rows, unmatched, self._routing),
            Logits(logits[0][0], logits[1][0], routed),
        )

    def _make_inputs(self, streams: Streams) -> None:
        """Gives the contexts what layers take besides the hidden states."""
        path = f"model.{LAYER_INPUTS}"
        self._load(path)

        def run(model: CausalLM, x: Tensor, _: CachedContext) -> Tensor:
            made: Tensor = model.get_submodule(path)(self._tokens, x)
            return made

        inputs = self._stage(path, run, streams)
        pairs = zip(self._contexts, inputs, strict=True)
        self._contexts = [context._replace(inputs=made) for context, made in pairs]

    def _load(self, path: str) -> None:
        self._checkpoint.load_into(self._float.get_submodule(path), f"{path}.")

    def _layer(self, path: str) -> Run:
        def run(model: CausalLM, x: Tensor, context: CachedContext) -> Tensor:
            layer = model.get_submodule(path)
            mixers = [module for module in layer.modules() if isinstance(module, MixerModule)]
            for mixer in mixers:
                mixer.setup_cache(x.shape[1])
            out: Tensor = layer(x, context)
            for mixer in mixers:
                mixer.setup_cache(0)  # gives its memory back, unless a later layer needs it
            return out

        return run

    def _stage(self, path: str, run: Run, inputs: Streams) -> Streams:
        """Runs a part of the models on each stream, keeps its rows, and gives what comes next: the
        third stream is the program's own values, as far as it shows them."""
        recorders, outputs = [], []
        models = self._float, self._quantized
        for model, x, context in zip(models, inputs, self._contexts, strict=False):
            recorders.append(Recorder(_METHODS))
            with recorders[-1].watching(model.get_submodule(path), path):
                outputs.append(run(model, x, context))
        recorders.append(Recorder(_METHODS))
        module = self._quantized.get_submodule(path)
        shown = self._program_scores(module, path)
        with _routed(module, shown), recorders[-1].watching(module, path):
            outputs.append(run(self._quantized, inputs[2], self._contexts[2]))
        with _routed(module, shown):
            for x, context in zip(inputs[3:], self._contexts[3:], strict=True):
                outputs.append(run(self._quantized, x, context))
        floats, quantized, given = recorders
        for name, scores in shown.items():
            full, mixture = _joined(path, name), module.get_submodule(name)
            assert isinstance(mixture, Experts)
            own = quantized.outputs[_joined(full, "router")].flatten(0, 1)
            self._routing.append(routing_of(mixture, full, own, scores))
        stage = Stage(floats, quantized, given, weights_alone(self._quantized, floats))
        rows = compare_stage(stage, self._logged, self._calls, self._tokens.shape[1])
        out = program_rows(self._logged, given, outputs[2], self._calls)
        matched = {row.sink for row in rows}
        self._rows += rows
        self._logged = [item for item in self._logged if item.sink not in matched]
        outputs[2] = outputs[1] if out is None else stacked(out, outputs[1])
        return tuple(outputs)

    def _program_scores(self, module: nn.Module, path: str) -> dict[str, tuple[Tensor, Tensor]]:
        """The positions and scores that the program shows of the routers of a module, by the names
        of their mixtures in it."""
        logged = {item.sink.place.module_path: item for item in self._logged}
        shown = {}
        for name, mixture in module.named_modules() if path else ():  # the root runs no layer
            scores = logged.get(_joined(path, name, "router"))
            if isinstance(mixture, Experts) and scores is not None:
                shown[name] = positions(scores.calls, self._calls.starts, self._calls.lengths)
        return shown


def weights_alone(quantized: nn.Module, floats: Recorder) -> dict[str, Distance]:
    """Each quantized weight alone, on what the float model gave to its float twin."""
    weights = {}
    for path, given in floats.inputs.items():
        module = quantized.get_submodule(path)
        if isinstance(module, nn.Linear | nn.Embedding | QuantizedLinear | QuantizedEmbedding):
            weights[path] = distance(floats.outputs[path], module(given))
    return weights


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


@contextmanager
def _routed(module: nn.Module, scores: Mapping[str, tuple[Tensor, Tensor]]) -> Iterator[None]:
    """In the block, these scores choose experts: rounding decides between almost equal ones."""
    hooks = []
    for name, rows in scores.items():
        router = module.get_submodule(_joined(name, "router"))
        hooks.append(router.register_forward_hook(_returning(rows)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def routing_of(
    mixture: Experts, path: str, scores: Tensor, program: tuple[Tensor, Tensor]
) -> LayerRouting:
    """Compares the choices of a mixture.

    Args:
        scores: float32 (tokens, num_experts), of the quantized model's router.
        program: positions int64 (rows,), and the program's scores there (rows, num_experts).
    """
    where, theirs = program
    routing, bias = mixture.routing, mixture.choice_bias
    ours = scores[where]
    ranked = routed_by(ours, routing, bias), routed_by(theirs, routing, bias)
    chosen = route(ours, routing, bias)[1], route(theirs, routing, bias)[1]
    return compare_routing(path, where, ranked, chosen)


def _returning(rows: tuple[Tensor, Tensor]) -> Callable[[nn.Module, Any, Tensor], Tensor]:
    def replace_rows(module: nn.Module, given: Any, output: Tensor) -> Tensor:
        return stacked(rows, output)

    return replace_rows
