"""SigLIP 2 and what leads from it into a language model, as in LFM2-VL: the patches of a picture of
any size, layers of attention among all of them, and a projection of squares of patches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exporter.errors import ExportError
from exporter.models.families import language_fields
from exporter.models.family import Family
from exporter.models.fields import count, flag, refuse
from exporter.models.siglip import (
    ACTIVATIONS,
    SightSpec,
    Siglip,
    is_unread,
    read_image_token,
    read_layers,
)
from exporter.models.tensor_layout import Stored

_DEFAULTS: Mapping[str, Any] = {  # of transformers, which stores no others' values
    **{"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12},
    **{"num_attention_heads": 12, "num_channels": 3, "num_patches": 256, "patch_size": 16},
    **{"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6},
}
_PROJECTOR: Mapping[str, Any] = {
    **{"projector_hidden_act": "gelu", "projector_hidden_size": 2560, "projector_bias": True},
    **{"projector_use_layernorm": True, "downsample_factor": 2},
}
_NORM_EPS = 1e-5
_PLACES = {"vision_model.": "model.vision_tower.", "connector.": "model.multi_modal_projector."}


@dataclass(frozen=True, kw_only=True)
class PatchSpec(SightSpec):
    """Of what reads pictures of any size, as patches.

    Attributes:
        trained: learned places of a side; those of patches are interpolated.
        by_axis: whether a patch's place is a learned one of its column and one of its row instead.
        theta: of the rotation, whose angles are those of the row in the first half of a head's
            pairs, and those of the column in the second; None: heads do not rotate.
    """

    trained: int
    by_axis: bool = False
    theta: float | None = None

    @property
    def pixel_numbers(self) -> int:
        """Of a patch, row by row, the colors of a pixel together."""
        return 3 * self.patch_size**2

    @property
    def places(self) -> int:
        """Learned ones."""
        return 2 * self.trained if self.by_axis else self.trained**2

    @property
    def turned(self) -> int:
        """Numbers of a head that rotate."""
        return 0 if self.theta is None else self.hidden_size // self.num_attention_heads

    @property
    def numbers(self) -> int:
        """Of a patch, its place, and the cosines and sines of its angles."""
        return self.pixel_numbers + self.places + 2 * self.turned


@dataclass(frozen=True, kw_only=True)
class TowerSpec(PatchSpec):
    """The fields of vision_config, and others, by their names there."""

    projector_hidden_act: str
    projector_hidden_size: int
    projector_bias: bool
    projector_use_layernorm: bool


def spec(config: Mapping[str, Any]) -> TowerSpec:
    own, layers = read_layers(config, _DEFAULTS)
    patches = count(own, "num_patches")
    trained = round(patches**0.5)
    if trained**2 != patches:
        raise ExportError(f"num_patches of vision_config is {patches}; it must be a square.")
    fields, text = {**_PROJECTOR, **config}, language_fields(config)
    refuse(fields, "projector_hidden_act", *ACTIVATIONS)
    return TowerSpec(
        **layers,
        model_type=str(config.get("model_type")),
        trained=trained,
        patch_size=count(own, "patch_size"),
        scale_factor=count(fields, "downsample_factor"),
        projector_hidden_act=fields["projector_hidden_act"],
        projector_hidden_size=count(fields, "projector_hidden_size"),
        projector_bias=flag(fields, "projector_bias"),
        projector_use_layernorm=flag(fields, "projector_use_layernorm"),
        text_size=count(text, "hidden_size"),
        vocab_size=count(text, "vocab_size"),
        image_token_id=read_image_token(config, text, 396),
    )


def stored(_: TowerSpec, name: str) -> Stored:
    ours, place = next(item for item in _PLACES.items() if name.startswith(item[0]))
    rest = name.removeprefix(ours)
    # Checkpoints of transformers before version 5 have one module more.
    older = "model.vision_tower.vision_model." if ours == "vision_model." else place
    return Stored((place + rest,)).or_else(Stored((older + rest,)))


PARTS = ("vision_tower", "multi_modal_projector")  # of a checkpoint, by their names below model.
FAMILY: Family[TowerSpec] = Family("siglip2", spec, stored, is_unread)


class Embeddings(nn.Module):
    """Of patches, and of their places among the learned ones."""

    def __init__(self, spec: PatchSpec, bias: bool = True) -> None:
        super().__init__()
        self.numbers = spec.numbers
        self.patch_embedding = nn.Linear(spec.pixel_numbers, spec.hidden_size, bias)
        self.position_embedding = nn.Embedding(spec.places, spec.hidden_size)

    def fit(self) -> None:
        """Makes one linear of both, which reads a patch's pixels and the weights of its place, and
        also its angles, and gives them no weight."""
        pixels, places = self.patch_embedding, self.position_embedding.weight
        weight = torch.cat([pixels.weight, places.T], 1)
        both = nn.Linear(self.numbers, pixels.out_features, device="meta")
        padded = F.pad(weight, (0, self.numbers - weight.shape[1]))
        both.weight = nn.Parameter(padded.contiguous())
        both.bias = pixels.bias
        self.patch_embedding = both
        del self.position_embedding

    def forward(self, patches: Tensor) -> Tensor:
        return self.patch_embedding(patches)


class Vision(Siglip[Embeddings]):
    """Whose heads may rotate."""

    def __init__(self, spec: PatchSpec, embeddings: Embeddings) -> None:
        super().__init__(spec, embeddings)
        self.turned = spec.turned

    def turns(self, pixels: Tensor) -> tuple[Tensor, ...]:
        if self.turned == 0:
            return ()
        return pixels[:, :, -2 * self.turned :].unsqueeze(2).chunk(2, dim=-1)


class Connector(nn.Module):
    def __init__(self, spec: TowerSpec, norm_eps: float | None) -> None:
        """
        Args:
            norm_eps: of a norm of what is joined; None: there is none.
        """
        super().__init__()
        self.square = spec.scale_factor**2
        self.approximate = ACTIVATIONS[spec.projector_hidden_act]
        size, hidden = spec.hidden_size * self.square, spec.projector_hidden_size
        self.layer_norm = None if norm_eps is None else nn.LayerNorm(size, eps=norm_eps)
        self.linear_1 = nn.Linear(size, hidden, bias=spec.projector_bias)
        self.linear_2 = nn.Linear(hidden, spec.text_size, bias=spec.projector_bias)

    def forward(self, patches: Tensor) -> Tensor:
        """Joins the patches of each square, and projects them."""
        count, size = patches.shape[1] // self.square, patches.shape[2] * self.square
        x = patches.reshape(1, count, size)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return self.linear_2(F.gelu(self.linear_1(x), approximate=self.approximate))


class Tower(nn.Module):
    """From a picture's patches to rows that a language model reads as it does tokens'."""

    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.vision_model = Vision(spec, Embeddings(spec))
        self.connector = Connector(spec, _NORM_EPS if spec.projector_use_layernorm else None)

    def fit(self, side: int) -> None:
        """Prepares the weights, once they are loaded, for pictures of any size."""
        self.vision_model.embeddings.fit()

    def forward(self, patches: Tensor) -> Tensor:
        """Maps patches to rows (1, squares, text_size).

        Args:
            patches: (1, squares * scale_factor**2, numbers), those of a square together, left to
                right and then down, as squares are: normalized pixels, then place_weights().
        """
        return self.connector(self.vision_model(patches))


def place_weights(trained: int, height: int, width: int) -> Tensor:
    """Returns how much of each learned place is in each patch's, (height, width, trained**2)."""
    sides = [
        F.interpolate(
            torch.eye(trained)[None, :, None],
            size=(1, size),
            mode="bilinear",
            align_corners=False,
            antialias=True,
        )[0, :, 0].T
        for size in (height, width)
    ]  # (size, trained) each
    return torch.einsum("ya,xb->yxab", *sides).flatten(2)
