"""What sees in Qwen3.5 and Qwen3-VL: the patches of a picture of any size, layers of attention
among all of them that rotate by row and column, and a projection of squares of patches. In Qwen3-VL
(DeepStack) the states of earlier layers are projected as well."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from exporter.errors import ExportError
from exporter.models import siglip2
from exporter.models.families import language_fields
from exporter.models.family import Family
from exporter.models.fields import count, positive, refuse
from exporter.models.rotary_config import given_rope, rope_object
from exporter.models.siglip import read_image_token, read_layers, vision_fields
from exporter.models.tensor_layout import Stored

_DEFAULTS: Mapping[str, Any] = {  # of transformers, which stores no others' values
    **{"hidden_size": 1152, "intermediate_size": 4304, "depth": 27, "num_heads": 16},
    **{"in_channels": 3, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2},
    **{"num_position_embeddings": 2304, "out_hidden_size": 3584},
    **{"hidden_act": "gelu_pytorch_tanh"},
}
_EPS = 1e-6
_TEXT: Mapping[str, tuple[int, list[int]]] = {  # image_token_id and mrope_section, by model_type
    **{"qwen3_5": (248056, [11, 11, 10]), "qwen3_vl": (151655, [24, 20, 20])},
}
_DEEP, _DEEP_LAYERS = "deepstack_visual_indexes", (8, 16, 24)
_MOST_SECTION = 1024
_DEEPSTACK = "deepstack."
_PLACES = {
    "vision_model.embeddings.patch_embedding.": "patch_embed.proj.",
    "vision_model.embeddings.position_embedding.": "pos_embed.",
    "vision_model.encoder.layers.": "blocks.",
    "vision_model.post_layernorm.": "merger.norm.",
    "connector.": "merger.",
}
_PARTS = {
    **{"layer_norm1.": "norm1.", "layer_norm2.": "norm2.", "self_attn.out_proj.": "attn.proj."},
    **{"fc1.": "linear_fc1.", "fc2.": "linear_fc2."},
    **{"linear_1.": "linear_fc1.", "linear_2.": "linear_fc2.", "layer_norm.": "norm."},
}


@dataclass(frozen=True, kw_only=True)
class TowerSpec(siglip2.TowerSpec):
    """
    Attributes:
        axes: by which of a row's positions, in time, down and across, each pair of a head of the
            language model rotates; further pairs as the last, by that in time.
        deep: layers whose states are projected as well, in order: the language model adds what
            becomes of them behind its own first layers.
    """

    axes: tuple[int, ...]
    deep: tuple[int, ...]

    @property
    def row_size(self) -> int:
        """Of what is read in front of the language model's layers, and added behind some."""
        return self.text_size * (1 + len(self.deep))


def spec(config: Mapping[str, Any]) -> TowerSpec:
    own = vision_fields(config, _DEFAULTS)
    names = {"num_hidden_layers": "depth", "num_attention_heads": "num_heads"}
    names["num_channels"] = "in_channels"
    own |= {ours: own[theirs] for ours, theirs in names.items()} | {"layer_norm_eps": _EPS}
    _, layers = read_layers({"vision_config": own}, {})
    rope = {"rope_theta": 10000.0, "rope_type": "axial", **rope_object(own, "rope_parameters")}
    refuse(rope, "rope_type", "axial", "default")
    refuse(own, "temporal_patch_size", 2)
    places, text = count(own, "num_position_embeddings"), language_fields(config)
    trained, scale = round(places**0.5), count(own, "spatial_merge_size")
    if trained**2 != places:
        raise ExportError(f"num_position_embeddings is {places}; it must be a square.")
    size = layers["hidden_size"]
    if size // layers["num_attention_heads"] % 4:
        raise ExportError(
            f"vision_config has heads of {size // layers['num_attention_heads']} numbers; they "
            "must be a multiple of 4, to rotate by row and column."
        )
    text_size, model_type = count(text, "hidden_size"), str(config.get("model_type"))
    image_token, sections = _TEXT[model_type]
    refuse(own, "out_hidden_size", text_size)
    return TowerSpec(
        **layers,
        model_type=model_type,
        trained=trained,
        patch_size=count(own, "patch_size"),
        scale_factor=scale,
        projector_hidden_act="gelu",
        projector_hidden_size=size * scale**2,
        projector_bias=True,
        projector_use_layernorm=False,
        text_size=text_size,
        vocab_size=count(text, "vocab_size"),
        image_token_id=read_image_token(config, text, image_token),
        theta=positive(rope, "rope_theta"),
        axes=_axes(text, sections),
        deep=_deep(own, text) if model_type == "qwen3_vl" else (),
    )


def _deep(own: Mapping[str, Any], text: Mapping[str, Any]) -> tuple[int, ...]:
    """
    Args:
        own: the fields of vision_config.
        text: those of the language model.
    """
    given = own.get(_DEEP, _DEEP_LAYERS)
    layers = list(given) if isinstance(given, list | tuple) else [given]
    depth, behind = count(own, "depth"), count(text, "num_hidden_layers")
    counted = all(type(layer) is int and 0 <= layer < depth for layer in layers)
    if not counted or layers != sorted(set(layers)) or len(layers) > behind:
        raise ExportError(
            f"{_DEEP} is {given}; it must be layers from 0 to {depth - 1}, each once and in "
            f"order, and at most {behind}, as many as the language model has."
        )
    return tuple(layers)


def _axes(text: Mapping[str, Any], usual: list[int]) -> tuple[int, ...]:
    """Pairs take turns: time, down, across, as far as the section of each reaches."""
    sections = given_rope(text).get("mrope_section", usual)
    counted = isinstance(sections, list) and len(sections) == 3
    if not counted or any(type(n) is not int or not 0 <= n <= _MOST_SECTION for n in sections):
        raise ExportError(
            f"mrope_section is {sections!r}; it must be 3 numbers from 0 to {_MOST_SECTION}."
        )
    axes = [0] * (3 * max(sections[1:]) + 1)
    for axis in (1, 2):
        reached = slice(axis, 3 * sections[axis], 3)
        axes[reached] = [axis] * len(axes[reached])
    return tuple(axes)


def stored(spec: TowerSpec, name: str) -> Stored:
    if name.startswith(_DEEPSTACK):
        _, layer, rest = name.split(".", 2)
        place = f"deepstack_merger_list.{spec.deep.index(int(layer))}."
    else:
        ours, place = next(item for item in _PLACES.items() if name.startswith(item[0]))
        rest = name.removeprefix(ours)
    for part, theirs in _PARTS.items():
        rest = rest.replace(part, theirs)
    if name.endswith("patch_embedding.weight"):
        # Both frames of a picture are equal, and the colors of a pixel stand together.
        return Stored((f"model.visual.{place}{rest}",)).then(
            lambda weight: weight.float().sum(2).permute(0, 2, 3, 1).flatten(1)
        )
    for index, part in enumerate(("q_proj", "k_proj", "v_proj")):
        if f".{part}." in name:
            rest = rest.replace(f"self_attn.{part}", "attn.qkv")
            size = spec.hidden_size
            return Stored((f"model.visual.{place}{rest}",)).rows(index * size, (index + 1) * size)
    return Stored((f"model.visual.{place}{rest}",))


PARTS = ("visual",)  # of a checkpoint, by their names below model.
FAMILY: Family[TowerSpec] = Family("qwen_sight", spec, stored)


class Tower(nn.Module):
    """From a picture's patches to rows that a language model reads as it does tokens'."""

    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.vision_model = siglip2.Vision(spec, siglip2.Embeddings(spec))
        self.connector = siglip2.Connector(spec, None)
        self.deepstack = nn.ModuleDict(
            {str(layer): siglip2.Connector(spec, spec.layer_norm_eps) for layer in spec.deep}
        )

    def fit(self, side: int) -> None:
        """Prepares the weights, once they are loaded, for pictures of any size."""
        self.vision_model.embeddings.fit()

    def forward(self, patches: Tensor) -> Tensor:
        """Maps patches to rows (1, squares, row_size).

        Args:
            patches: (1, squares * scale_factor**2, numbers), those of a square together, left to
                right and then down, as squares are: normalized pixels, then place_weights(), then
                angles().
        """
        if not self.deepstack:
            return self.connector(self.vision_model(patches))
        model, rows = self.vision_model, []
        x, turns = model.embeddings(patches), model.turns(patches)
        for index, layer in enumerate(model.encoder.layers):
            x = layer(x, *turns)
            if str(index) in self.deepstack:
                rows.append(self.deepstack[str(index)](x))
        return torch.cat([self.connector(model.post_layernorm(x)), *rows], -1)


def place_weights(trained: int, height: int, width: int) -> Tensor:
    """Returns how much of each learned place is in each patch's, (height, width, trained**2)."""
    sides = []
    for size in (height, width):
        at = torch.arange(size, dtype=torch.float32) * (trained - 1) / max(size - 1, 1)
        apart = (at[:, None] - torch.arange(trained)).abs()
        sides.append((1 - apart).clamp(min=0))  # (size, trained)
    return torch.einsum("ya,xb->yxab", *sides).flatten(2)


def angles(spec: siglip2.PatchSpec, height: int, width: int) -> Tensor:
    """Returns cosines and signed sines of the rotation, (height, width, 2 * turned)."""
    assert spec.theta is not None
    half = spec.turned // 2
    frequencies = 1.0 / spec.theta ** (torch.arange(0, half, 2, dtype=torch.float32) / half)
    down, across = (torch.outer(torch.arange(n).float(), frequencies) for n in (height, width))
    both = torch.cat([down[:, None].expand(-1, width, -1), across.expand(height, -1, -1)], dim=2)
    cosines, sines = both.cos(), both.sin()
    return torch.cat([cosines, cosines, -sines, sines], dim=2)
