"""SigLIP and what leads from it into a language model, as in SmolVLM and Idefics3: a picture's
patches, layers of attention among all of them, and a projection of squares of patches."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exporter.errors import ExportError
from exporter.models.families import language_fields
from exporter.models.family import Family
from exporter.models.fields import count, positive, refuse
from exporter.models.rotary_tables import apply_rope
from exporter.models.tensor_layout import Stored

_DEFAULTS: Mapping[str, Any] = {  # of transformers, which stores no others' values
    **{"hidden_size": 1152, "intermediate_size": 3072, "num_hidden_layers": 12},
    **{"num_attention_heads": 16, "num_channels": 3, "image_size": 224, "patch_size": 32},
    **{"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6},
}
_Embeddings = TypeVar("_Embeddings", bound=nn.Module)
ACTIVATIONS = {"gelu_pytorch_tanh": "tanh", "gelu": "none"}


@dataclass(frozen=True, kw_only=True)
class LayerSizes:
    """Fields of vision_config by their names there, which the layers need."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    hidden_act: str
    layer_norm_eps: float


@dataclass(frozen=True, kw_only=True)
class SightSpec(LayerSizes):
    """What is known of all that sees.

    Attributes:
        scale_factor: patches of a square's side; a square is a row of the output.
        text_size: numbers of what the language model reads as a row, its hidden_size.
        image_token_id: the token that stands where a row does.
        both_ways: whether the rows of a picture attend to those behind them, too, in the language
            model.
    """

    model_type: str
    patch_size: int
    scale_factor: int
    text_size: int
    vocab_size: int
    image_token_id: int
    tie_word_embeddings: bool = False
    both_ways: bool = False

    @property
    def row_size(self) -> int:
        """Numbers of a row of the output."""
        return self.text_size

    @property
    def square(self) -> int:
        """The side of a square, pixels."""
        return self.patch_size * self.scale_factor

    def rows(self, side: int) -> int:
        """Returns how many rows a square picture becomes."""
        return int((side // self.square) ** 2)


@dataclass(frozen=True, kw_only=True)
class TowerSpec(SightSpec):
    """The fields of vision_config by their names there."""

    image_size: int


def spec(config: Mapping[str, Any]) -> TowerSpec:
    own, layers = read_layers(config, _DEFAULTS)
    image_size, patch_size = count(own, "image_size"), count(own, "patch_size")
    if image_size < patch_size:
        raise ExportError(
            f"image_size {image_size} of vision_config is less than patch_size {patch_size}."
        )
    text = language_fields(config)
    return TowerSpec(
        **layers,
        model_type=str(config.get("model_type")),
        image_size=image_size,
        patch_size=patch_size,
        scale_factor=count(config, "scale_factor", 2),
        text_size=count(text, "hidden_size"),
        vocab_size=count(text, "vocab_size"),
        image_token_id=read_image_token(config, text, 128257),
    )


def vision_fields(config: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of vision_config, over those of others that are not stored.

    Raises:
        ExportError: it is no object.
    """
    own = config.get("vision_config")
    if not isinstance(own, dict):
        raise ExportError(f"vision_config is {own!r}; it must be an object.")
    return {**defaults, **own}


def read_layers(
    config: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Returns the fields of vision_config, and of these those of LayerSizes.

    Args:
        defaults: of fields that are not stored.

    Raises:
        ExportError: one has a value that is not supported.
    """
    own = vision_fields(config, defaults)
    refuse(own, "hidden_act", *ACTIVATIONS)
    refuse(own, "num_channels", 3)
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    layers: dict[str, Any] = {name: count(own, name) for name in sizes}
    if layers["hidden_size"] % layers["num_attention_heads"]:
        raise ExportError(
            f"hidden_size {layers['hidden_size']} of vision_config is not a multiple of "
            f"num_attention_heads {layers['num_attention_heads']}."
        )
    epsilon = positive(own, "layer_norm_eps")
    return own, {**layers, "hidden_act": own["hidden_act"], "layer_norm_eps": epsilon}


def read_image_token(config: Mapping[str, Any], text: Mapping[str, Any], default: int) -> int:
    """Returns the token that stands where a row of a picture does.

    Args:
        text: the fields of the language model.

    Raises:
        ExportError: it is not in the vocabulary.
    """
    return read_token(config, "image_token_id", default, count(text, "vocab_size"))


def read_token(fields: Mapping[str, Any], name: str, default: int, vocab_size: int) -> int:
    """
    Raises:
        ExportError: it is not in the vocabulary.
    """
    token = count(fields, name, default, 0)
    if token >= vocab_size:
        raise ExportError(f"{name} is {token}, but vocab_size is {vocab_size}.")
    return token


def stored(_: TowerSpec, name: str) -> Stored:
    return Stored((f"model.{name}",))


def is_unread(_: object, name: str) -> bool:
    """Whether it is of the head that pools a picture into one row, which no language model reads,
    and transformers stores unless vision_use_head is false."""
    return re.search(r"\bvision_(model|tower)\.head\.", name) is not None


PARTS = ("vision_model", "connector")  # of a checkpoint, by their names below model.
FAMILY: Family[TowerSpec] = Family("siglip", spec, stored, is_unread)


class Attention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(size, size)
        self.k_proj = nn.Linear(size, size)
        self.v_proj = nn.Linear(size, size)
        self.out_proj = nn.Linear(size, size)

    def forward(self, x: Tensor, *turns: Tensor) -> Tensor:
        """Attends from each of some patches to all, (1, patches, size).

        Args:
            turns: cosines and sines that heads rotate by, (1, patches, 1, head_dim), if they do.
        """
        query, key, value = (
            proj(x).unflatten(2, (self.heads, -1))
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        if turns:
            cosines, sines = turns
            query, key = apply_rope(query, (cosines, sines)), apply_rope(key, (cosines, sines))
        query, key, value = (one.transpose(1, 2) for one in (query, key, value))
        out = F.scaled_dot_product_attention(query, key, value)
        return self.out_proj(out.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, spec: LayerSizes) -> None:
        super().__init__()
        self.approximate = ACTIVATIONS[spec.hidden_act]
        self.fc1 = nn.Linear(spec.hidden_size, spec.intermediate_size)
        self.fc2 = nn.Linear(spec.intermediate_size, spec.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x), approximate=self.approximate))


class Layer(nn.Module):
    def __init__(self, spec: LayerSizes) -> None:
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(spec.hidden_size, eps=spec.layer_norm_eps)
        self.self_attn = Attention(spec.hidden_size, spec.num_attention_heads)
        self.layer_norm2 = nn.LayerNorm(spec.hidden_size, eps=spec.layer_norm_eps)
        self.mlp = MLP(spec)

    def forward(self, x: Tensor, *turns: Tensor) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x), *turns)
        return x + self.mlp(self.layer_norm2(x))


class Embeddings(nn.Module):
    """Of patches; each has a learned place."""

    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.patch_embedding = nn.Conv2d(
            3, spec.hidden_size, kernel_size=spec.patch_size, stride=spec.patch_size
        )
        # `trained` places; Tower.fit() leaves one for each patch of its pictures.
        trained = spec.image_size // spec.patch_size
        self.position_embedding = nn.Embedding(trained**2, spec.hidden_size)

    def forward(self, pixels: Tensor) -> Tensor:
        patches = self.patch_embedding(pixels).flatten(2).transpose(1, 2)
        return patches + self.position_embedding.weight


class Encoder(nn.Module):
    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)


class Siglip(nn.Module, Generic[_Embeddings]):
    embeddings: _Embeddings

    def __init__(self, spec: LayerSizes, embeddings: _Embeddings) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.encoder = Encoder(Layer(spec) for _ in range(spec.num_hidden_layers))
        self.post_layernorm: nn.Module = nn.LayerNorm(spec.hidden_size, eps=spec.layer_norm_eps)

    def turns(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """Returns what heads rotate by, as Attention takes it."""
        return ()

    def forward(self, pixels: Tensor) -> Tensor:
        x, turns = self.embeddings(pixels), self.turns(pixels)
        for layer in self.encoder.layers:
            x = layer(x, *turns)
        return self.post_layernorm(x)


class Projection(nn.Module):
    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        size = spec.hidden_size * spec.scale_factor**2
        self.proj = nn.Linear(size, spec.text_size, bias=False)


class Connector(nn.Module):
    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.scale_factor = spec.scale_factor
        self.modality_projection = Projection(spec)

    def forward(self, patches: Tensor) -> Tensor:
        """Joins the patches of each square, left to right and then down, and projects them."""
        side, scale = round(patches.shape[1] ** 0.5), self.scale_factor
        squares = patches.reshape(1, side // scale, scale, side // scale, -1)
        squares = squares.permute(0, 1, 3, 2, 4).reshape(
            1, (side // scale) ** 2, scale * scale * patches.shape[2]
        )
        return self.modality_projection.proj(squares)


class Tower(nn.Module):
    """From a square picture's pixels to rows that a language model reads as it does tokens'."""

    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.vision_model = Siglip(spec, Embeddings(spec))
        self.connector = Connector(spec)

    def fit(self, side: int) -> None:
        """Gives each patch of pictures of this side its place, once the weights are loaded."""
        embeddings = self.vision_model.embeddings
        embedding, patch_size = embeddings.position_embedding, embeddings.patch_embedding.stride[0]
        places = patch_places(round(len(embedding.weight) ** 0.5), side // patch_size)
        embedding.weight = nn.Parameter(embedding.weight[places].contiguous(), requires_grad=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Maps normalized pixels (1, 3, side, side) to rows (1, rows, text_size)."""
        return self.connector(self.vision_model(pixels))


def patch_places(trained: int, count: int) -> Tensor:
    """Returns the trained place of each of count * count patches, int64: each side is cut into
    `trained` parts. Numbers are float32, as transformers computes them, whose rounding decides at
    the borders."""
    borders = torch.arange(1 / trained, 1.0, 1 / trained)
    step = 1.0 / torch.tensor([count])
    at = torch.clamp(torch.arange(count, dtype=torch.float32) * step, max=1.0 - 1e-6)
    places = torch.bucketize(at, borders, right=True)
    return (places[:, None] * trained + places).reshape(-1)
