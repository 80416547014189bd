"""What sees in Gemma 4: the patches of a picture of any size, layers of attention among all of them
that rotate by row and column, the mean of each square of patches, and a projection."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exporter.errors import ExportError
from exporter.models import siglip, siglip2
from exporter.models.families import language_fields
from exporter.models.families.gemma4_text import DEFAULTS
from exporter.models.family import Family
from exporter.models.fields import count, flag, positive, refuse
from exporter.models.norm import RMSNorm
from exporter.models.rotary_config import rope_object
from exporter.models.rotary_tables import apply_rope
from exporter.models.siglip import read_image_token, read_layers, read_token, vision_fields
from exporter.models.tensor_layout import Stored

_VISION: Mapping[str, Any] = {  # of transformers, which stores no others' values
    **{"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16},
    **{"num_attention_heads": 12, "num_key_value_heads": 12, "head_dim": 64, "num_channels": 3},
    **{"hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6},
    **{"patch_size": 16, "pooling_kernel_size": 3, "position_embedding_size": 10240},
}
_ROPE = {"rope_theta": 100.0, "rope_type": "axial"}
_TABLE = "model.vision_tower.patch_embedder.position_embedding_table"
_PLACES = {
    "vision_model.embeddings.patch_embedding.": "model.vision_tower.patch_embedder.input_proj.",
    "vision_model.encoder.": "model.vision_tower.encoder.",
    "connector.proj.": "model.embed_vision.embedding_projection.",
    "connector.": "model.vision_tower.",
}
_BOUNDS = ("input_min", "input_max", "output_min", "output_max")


@dataclass(frozen=True, kw_only=True)
class TowerSpec(siglip2.PatchSpec):
    """
    Attributes:
        clipped: whether inputs and outputs of linears have bounds.
        standardize: whether numbers of the mean of a square are shifted and scaled.
        blank: the token by which layers with inputs of their own know a picture's row.
    """

    clipped: bool
    standardize: bool
    blank: int


def spec(config: Mapping[str, Any]) -> TowerSpec:
    own = vision_fields(config, _VISION)
    refuse(own, "hidden_activation", "gelu_pytorch_tanh")
    own |= {"hidden_act": own["hidden_activation"], "layer_norm_eps": own["rms_norm_eps"]}
    _, layers = read_layers({"vision_config": own}, {})
    size, heads = layers["hidden_size"], layers["num_attention_heads"]
    refuse(own, "num_key_value_heads", heads)
    refuse(own, "head_dim", size // heads)
    refuse(own, "attention_bias", False)
    rope = {**_ROPE, **rope_object(own, "rope_parameters")}
    refuse(rope, "rope_type", "axial")
    if size // heads % 4:
        raise ExportError(
            f"vision_config has heads of {size // heads} numbers; they must be a multiple of 4, to "
            "rotate by row and column."
        )
    text = {**DEFAULTS, **language_fields(config)}
    if text.get("use_bidirectional_attention") is not None:
        raise ExportError(
            f"use_bidirectional_attention {text['use_bidirectional_attention']!r} is not supported "
            "with pictures, whose rows would attend to each other in some layers; take E2B or E4B, "
            "or leave pictures out with --no-vision."
        )
    return TowerSpec(
        **layers,
        model_type=str(config.get("model_type")),
        trained=count(own, "position_embedding_size"),
        by_axis=True,
        theta=positive(rope, "rope_theta"),
        patch_size=count(own, "patch_size"),
        scale_factor=count(own, "pooling_kernel_size"),
        clipped=flag(own, "use_clipped_linears"),
        standardize=flag(own, "standardize"),
        text_size=count(text, "hidden_size"),
        vocab_size=count(text, "vocab_size"),
        image_token_id=read_image_token(config, text, 258880),
        blank=read_token(text, "pad_token_id", 0, count(text, "vocab_size")),
    )


def stored(spec: TowerSpec, name: str) -> Stored:
    if "position_embedding" in name:
        return Stored((_TABLE,)).then(lambda table: table[:, : spec.trained].flatten(0, 1))
    ours, place = next(item for item in _PLACES.items() if name.startswith(item[0]))
    theirs = place + name.removeprefix(ours)
    if name.endswith(".bounds"):
        linear = theirs.removesuffix("bounds")
        return Stored(
            tuple(linear + bound for bound in _BOUNDS),
            lambda *bounds: torch.stack([bound.reshape(()) for bound in bounds]),
        )
    if any(f".{part}." in name for part in ("q_proj", "k_proj", "q_norm", "k_norm")):
        return Stored((theirs,)).then(lambda rows: _in_halves(rows, spec.turned // 4))
    return Stored((theirs,))


def _in_halves(rows: Tensor, quarter: int) -> Tensor:
    """Returns rows of heads whose first half rotates by the column and the second by the row, in
    the order of heads whose halves rotate with each other, by the row and then by the column."""
    return rows.unflatten(0, (-1, 4, quarter))[:, [2, 0, 3, 1]].flatten(0, 2)


PARTS = ("vision_tower", "embed_vision")  # of a checkpoint
FAMILY: Family[TowerSpec] = Family("gemma4_sight", spec, stored)


class BoundedLinear(nn.Module):
    """A linear whose inputs and outputs may have bounds."""

    def __init__(self, inputs: int, outputs: int, clipped: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.of_inputs: tuple[float, float] | None = None
        self.of_outputs: tuple[float, float] | None = None
        if clipped:
            self.bounds = nn.Parameter(torch.empty(4))

    def fit(self) -> None:
        """Makes numbers of the bounds, once they are loaded."""
        if not hasattr(self, "bounds"):
            return
        pairs = self.bounds.unflatten(0, (2, 2)).tolist()
        self.of_inputs, self.of_outputs = (
            None if pair == [-math.inf, math.inf] else tuple(pair) for pair in pairs
        )
        del self.bounds

    def forward(self, x: Tensor) -> Tensor:
        if self.of_inputs is not None:
            x = x.clamp(*self.of_inputs)
        x = self.linear(x)
        return x if self.of_outputs is None else x.clamp(*self.of_outputs)


class Attention(nn.Module):
    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        size, eps, self.heads = spec.hidden_size, spec.layer_norm_eps, spec.num_attention_heads
        self.q_proj = BoundedLinear(size, size, spec.clipped)
        self.k_proj = BoundedLinear(size, size, spec.clipped)
        self.v_proj = BoundedLinear(size, size, spec.clipped)
        self.o_proj = BoundedLinear(size, size, spec.clipped)
        self.q_norm, self.k_norm = (RMSNorm(spec.turned, eps) for _ in range(2))
        self.v_norm = RMSNorm(spec.turned, eps, weighted=False)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """Attends from each of some patches to all, (1, patches, size); cosines, sines: as heads
        rotate by them, (1, patches, 1, head_dim)."""
        query, key, value = (
            norm(proj(x).unflatten(2, (self.heads, -1)))
            for norm, proj in (
                (self.q_norm, self.q_proj),
                (self.k_norm, self.k_proj),
                (self.v_norm, self.v_proj),
            )
        )
        query, key = apply_rope(query, (cosines, sines)), apply_rope(key, (cosines, sines))
        query, key, value = (one.transpose(1, 2) for one in (query, key, value))
        out = F.scaled_dot_product_attention(query, key, value, scale=1.0)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        size, inner = spec.hidden_size, spec.intermediate_size
        self.gate_proj = BoundedLinear(size, inner, spec.clipped)
        self.up_proj = BoundedLinear(size, inner, spec.clipped)
        self.down_proj = BoundedLinear(inner, size, spec.clipped)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        size, eps = spec.hidden_size, spec.layer_norm_eps
        self.input_layernorm = RMSNorm(size, eps)
        self.self_attn = Attention(spec)
        self.post_attention_layernorm = RMSNorm(size, eps)
        self.pre_feedforward_layernorm = RMSNorm(size, eps)
        self.mlp = MLP(spec)
        self.post_feedforward_layernorm = RMSNorm(size, eps)

    def forward(self, x: Tensor, *turns: Tensor) -> Tensor:
        attended = self.self_attn(self.input_layernorm(x), *turns)
        x = x + self.post_attention_layernorm(attended)
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class Vision(siglip2.Vision):
    def __init__(self, spec: TowerSpec) -> None:
        super().__init__(spec, siglip2.Embeddings(spec, bias=False))
        self.encoder = siglip.Encoder(Layer(spec) for _ in range(spec.num_hidden_layers))
        self.post_layernorm = nn.Identity()  # Gemma has none


class Connector(nn.Module):
    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.square, size = spec.scale_factor**2, spec.hidden_size
        self.standardize = spec.standardize
        if spec.standardize:
            self.std_bias, self.std_scale = (nn.Parameter(torch.empty(size)) for _ in range(2))
        self.norm = RMSNorm(size, spec.layer_norm_eps, weighted=False)
        self.proj = nn.Linear(size, spec.text_size, bias=False)

    def forward(self, patches: Tensor) -> Tensor:
        """Takes the mean of the patches of each square, and projects it."""
        count, size = patches.shape[1] // self.square, patches.shape[2]
        together = patches.reshape(1, count, self.square * size)
        total = together[..., :size]
        for first in range(size, self.square * size, size):
            total = total + together[..., first : first + size]
        means = total * (size**0.5 / self.square)
        if self.standardize:
            means = (means - self.std_bias) * self.std_scale
        return self.proj(self.norm(means))


class Tower(nn.Module):
    """From a picture's patches to rows that a language model reads as it does tokens'."""

    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.vision_model = Vision(spec)
        self.connector = Connector(spec)

    def fit(self, side: int) -> None:
        """Prepares the weights, once they are loaded, for pictures of any size."""
        self.vision_model.embeddings.fit()
        for module in self.modules():
            if isinstance(module, BoundedLinear):
                module.fit()

    def forward(self, patches: Tensor) -> Tensor:
        """Maps patches to rows (1, squares, text_size).

        Args:
            patches: (1, squares * scale_factor**2, numbers), those of a square together, left to
                right and then down, as squares are: normalized pixels, then 1 at the column and 1
                at the row among `trained` each, then qwen_sight.angles().
        """
        return self.connector(self.vision_model(patches))
