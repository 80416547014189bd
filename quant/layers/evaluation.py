"""The evaluation text on its way through a model: how far each layer drifts, and the quality."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from quant.errors import QuantError
from quant.layers.embedding_and_head import compare_heads, embed_float
from quant.layers.stream import States, contexts_on
from quant.layers.walk import Stop
from quant.measure.quality import Quality
from quant.protocols import CausalLM, WeightSource


class EvaluationStreams:
    """Hidden states of the evaluation text after the float layers and after the quantized ones."""

    def __init__(
        self, model: CausalLM, weights: WeightSource, tokens: Tensor, device: torch.device
    ) -> None:
        self._tokens = tokens.to(device)
        seq_len = tokens.shape[1]
        embedded = embed_float(model, weights, tokens).to(device)
        contexts = contexts_on(device, model, seq_len, weights)
        self._float = States(embedded, contexts, tokens)
        contexts = contexts_on(device, model, seq_len)
        self._quantized = States(model.embed(tokens).to(device), contexts, tokens)
        self._layer_errors: list[float] = []

    def advance_float(self, stop: Stop) -> None:
        self._float.advance(stop.layer)
        _require_sense(stop.name, bool(self._float.hidden.isfinite().all()))

    def advance_quantized(self, layer: nn.Module) -> None:
        self._quantized.advance(layer)
        reference, hidden = self._float.hidden, self._quantized.hidden
        self._layer_errors.append(((hidden - reference).norm() / reference.norm()).item())

    def compare(
        self,
        model: CausalLM,
        weights: WeightSource,
        tied: bool,
        advance: Callable[[int], None],
    ) -> tuple[Quality, list[float]]:
        """Returns the quality, and how far each layer's output was from the float one's."""
        reference, hidden = (
            states.hidden[:, :-1].flatten(0, 1) for states in (self._float, self._quantized)
        )
        targets = self._tokens[:, 1:].flatten()
        quality = compare_heads(model, weights, tied, reference, hidden, targets, advance)
        _require_sense("lm_head", math.isfinite(quality.perplexity_float))
        return quality, self._layer_errors


def _require_sense(name: str, finite: bool) -> None:
    """Raises QuantError if the float model computes values that are not finite."""
    if not finite:
        raise QuantError(
            f"{name} gives values that are not finite, in float32 and before any rounding; no "
            "model computes with them: check the checkpoint."
        )
