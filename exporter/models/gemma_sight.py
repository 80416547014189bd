"""What sees in Gemma 3: SigLIP at one size, the mean of each square of patches, and a projection.
In the language model the rows of a picture attend to each other both ways."""

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from exporter.errors import ExportError
from exporter.models import siglip
from exporter.models.families import language_fields
from exporter.models.families.gemma3_text import DEFAULTS
from exporter.models.family import Family
from exporter.models.fields import count
from exporter.models.norm import RMSNorm
from exporter.models.siglip import read_image_token, read_layers
from exporter.models.tensor_layout import Stored

_VISION: Mapping[str, Any] = {  # of transformers, which stores no others' values
    **{"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12},
    **{"num_attention_heads": 12, "num_channels": 3, "image_size": 224, "patch_size": 16},
    **{"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6},
}
_ROWS = "mm_tokens_per_image"
_MOST_ROWS = 256  # that the language model reads in one step
_TOKEN = "image_token_index"
_PLACES = {
    "vision_model.": "model.vision_tower.",
    "connector.norm.": "model.multi_modal_projector.mm_soft_emb_norm.",
    "connector.proj.weight": "model.multi_modal_projector.mm_input_projection_weight",
}


class TowerSpec(siglip.TowerSpec):
    """Every picture has the same size, image_size."""


def spec(config: Mapping[str, Any]) -> TowerSpec:
    own, layers = read_layers(config, _VISION)
    rows, image_size = count(config, _ROWS, 256), count(own, "image_size")
    patch_size, side = count(own, "patch_size"), round(rows**0.5)
    if side**2 != rows or rows > _MOST_ROWS:
        raise ExportError(f"{_ROWS} is {rows}; it must be a square of at most {_MOST_ROWS}.")
    if image_size % (patch_size * side):
        raise ExportError(
            f"image_size {image_size} of vision_config is not a multiple of {patch_size * side}, "
            f"the pixels of {side} patches of patch_size {patch_size}."
        )
    text = {**DEFAULTS, **language_fields(config)}
    token = config.get(_TOKEN, config.get("image_token_id", 262144))
    return TowerSpec(
        **layers,
        model_type=str(config.get("model_type")),
        image_size=image_size,
        patch_size=patch_size,
        scale_factor=image_size // (patch_size * side),
        text_size=count(text, "hidden_size"),
        vocab_size=count(text, "vocab_size"),
        image_token_id=read_image_token({"image_token_id": token}, text, token),
        both_ways=True,
    )


def stored(_: TowerSpec, name: str) -> Stored:
    ours, place = next(item for item in _PLACES.items() if name.startswith(item[0]))
    rest = name.removeprefix(ours)
    kept = Stored((place + rest,))
    if ours == "vision_model.":
        # Checkpoints of transformers before version 5 have one module more.
        return kept.or_else(Stored((f"{place}vision_model.{rest}",)))
    return kept.plus_one() if name == "connector.norm.weight" else kept.transposed()


PARTS = ("vision_tower", "multi_modal_projector")  # of a checkpoint
FAMILY: Family[TowerSpec] = Family("gemma_sight", spec, stored, siglip.is_unread)


class Connector(nn.Module):
    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.scale_factor = spec.scale_factor
        self.norm = RMSNorm(spec.hidden_size, spec.layer_norm_eps)
        self.proj = nn.Linear(spec.hidden_size, spec.text_size, bias=False)

    def forward(self, patches: Tensor) -> Tensor:
        """Takes the mean of the patches of each square, and projects it."""
        side = round(patches.shape[1] ** 0.5)
        squares = patches.transpose(1, 2).unflatten(2, (side, side))
        means = F.avg_pool2d(squares, self.scale_factor).flatten(2).transpose(1, 2)
        return self.proj(self.norm(means))


class Tower(nn.Module):
    """From a square picture's pixels to rows that a language model reads as it does tokens'."""

    def __init__(self, spec: TowerSpec) -> None:
        super().__init__()
        self.vision_model = siglip.Siglip(spec, siglip.Embeddings(spec))
        self.connector = Connector(spec)

    def fit(self, side: int) -> None:
        """Pictures have the trained size: there is nothing to prepare."""

    def forward(self, pixels: Tensor) -> Tensor:
        """Maps normalized pixels (1, 3, side, side) to rows (1, rows, text_size)."""
        return self.connector(self.vision_model(pixels))
