"""A small random LFM2-VL in a directory of Hugging Face's form, and what its processor makes.

transformers' own needs torchvision, which is no requirement here: its rules are written again."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from PIL import Image
from support.seeing_models import BYTES, END, IMAGE, START, write_tokenizer
from torch import Tensor

PATCH, TRAINED, TILE = 4, 4, 32
_TILES = [f"<|img_row_{row}_col_{column}|>" for row in range(1, 7) for column in range(1, 7)]
SPECIAL = (
    *("<|im_start|>", "<end_of_utterance>", "<image>", "<|image_start|>", "<|image_end|>"),
    *("<|img_thumbnail|>", *_TILES),
)
SMALL: dict[str, Any] = {
    **{"encoder_patch_size": PATCH, "tile_size": TILE},
    **{"min_image_tokens": 4, "max_image_tokens": 16, "max_tiles": 6},
}


def config() -> Any:
    vision = {
        **{"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2},
        **{"num_attention_heads": 3, "num_patches": TRAINED**2, "patch_size": PATCH},
        "vision_use_head": False,
    }
    ends = {"pad_token_id": END, "bos_token_id": START, "eos_token_id": END}
    text = {
        **{"model_type": "lfm2", "hidden_size": 64, "intermediate_size": 96},
        **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
        **{"vocab_size": BYTES + len(SPECIAL), "layer_types": ["conv", "full_attention"]},
        **{"max_position_embeddings": 2048, **ends},
    }
    return transformers.Lfm2VlConfig(
        vision_config=vision, text_config=text, image_token_id=IMAGE, projector_hidden_size=40
    )


def write_patched(directory: Path, factor: float = 8, **fields: Any) -> Any:
    """Writes a checkpoint, and returns transformers' model of it.

    Args:
        factor: of its random weights; the usual one makes a token depend on pictures and places.
        fields: of the processor of pictures.
    """
    torch.manual_seed(5)
    model = transformers.Lfm2VlForConditionalGeneration(config()).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embed_tokens" not in name:
                parameter.mul_(factor)
    model.save_pretrained(directory)
    write_tokenizer(directory, SPECIAL)
    write_processor(directory, **fields)
    return model


def write_processor(directory: Path, **fields: Any) -> None:
    kind = {"image_processor_type": "Lfm2VlImageProcessorFast"}
    path = directory / "preprocessor_config.json"
    path.write_text(json.dumps({**kind, **SMALL, **fields}))


def _rounded(length: int, unit: int) -> int:
    return round(length / unit) * unit


class Processor:
    """
    Args:
        fields: of the processor of pictures.
    """

    def __init__(self, **fields: Any) -> None:
        known = {
            **{"encoder_patch_size": 16, "tile_size": 512, "downsample_factor": 2},
            **{"min_image_tokens": 64, "max_image_tokens": 256, "max_pixels_tolerance": 2.0},
            **{"min_tiles": 2, "max_tiles": 10, "do_image_splitting": True, "resample": 2},
            **{"image_mean": [0.5] * 3, "image_std": [0.5] * 3},
            **fields,
        }
        self.fields, self.patch = known, known["encoder_patch_size"]
        self.unit = self.patch * known["downsample_factor"]
        self.most = known["max_image_tokens"] * self.unit**2

    def whole(self, width: int, height: int) -> tuple[int, int]:
        unit, least = self.unit, self.fields["min_image_tokens"] * self.unit**2
        sizes = [max(unit, _rounded(length, unit)) for length in (width, height)]
        if math.prod(sizes) > self.most:
            beta = math.sqrt(height * width / self.most)
            sizes = [max(unit, int(one / beta / unit) * unit) for one in (width, height)]
        elif math.prod(sizes) < least:
            beta = math.sqrt(least / (height * width))
            sizes = [math.ceil(one * beta / unit) * unit for one in (width, height)]
        return sizes[0], sizes[1]

    def grid(self, width: int, height: int) -> tuple[int, int] | None:
        """Columns and rows of tiles."""
        sizes = [max(self.patch, _rounded(length, self.unit)) for length in (width, height)]
        splits = self.fields["do_image_splitting"]
        if not splits or math.prod(sizes) <= self.most * self.fields["max_pixels_tolerance"]:
            return None
        least, most = self.fields["min_tiles"], self.fields["max_tiles"]
        pairs = [(w, h) for w in range(1, most + 1) for h in range(1, most + 1)]
        fitting = sorted({one for one in pairs if least <= math.prod(one) <= most}, key=math.prod)
        best, apart = (1, 1), math.inf
        for columns, rows in fitting:
            difference = abs(width / height - columns / rows)
            large = width * height > 0.5 * self.fields["tile_size"] ** 2 * columns * rows
            if difference < apart or (difference == apart and large):
                best = columns, rows
            apart = min(apart, difference)
        return best

    def resized(self, pixels: Tensor, width: int, height: int) -> Tensor:
        if pixels.shape[-2:] == (height, width):
            return pixels
        mode = {2: "bilinear", 3: "bicubic"}[self.fields["resample"]]
        return F.interpolate(pixels, size=(height, width), mode=mode, antialias=True)

    def pictures(self, image: Image.Image) -> list[Tensor]:
        """The tiles and the whole, uint8 (3, height, width) each."""
        pixels = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)[None]
        grid, tiles = self.grid(*image.size), []
        if grid is not None:
            side, (columns, rows) = self.fields["tile_size"], grid
            large = self.resized(pixels, columns * side, rows * side)[0]
            tiles = [
                large[:, y * side : (y + 1) * side, x * side : (x + 1) * side]
                for y in range(rows)
                for x in range(columns)
            ]
        return [*tiles, self.resized(pixels, *self.whole(*image.size))[0]]

    def patches(self, image: Image.Image) -> list[Tensor]:
        """Of each tile and the whole, (height, width, numbers)."""
        levels = [torch.tensor(self.fields[name]) * 255.0 for name in ("image_mean", "image_std")]
        mean, std = (one[:, None, None] for one in levels)
        return [
            ((one.float() - mean) / std)
            .unflatten(2, (-1, self.patch))
            .unflatten(1, (-1, self.patch))
            .permute(1, 3, 2, 4, 0)
            .flatten(2)
            for one in self.pictures(image)
        ]

    def text(self, image: Image.Image) -> str:
        *tiles, whole = (
            "<image>" * (one[0].numel() // self.unit**2) for one in self.pictures(image)
        )
        grid, text = self.grid(*image.size), "<|image_start|>"
        if grid is not None:
            places = [(y + 1, x + 1) for y in range(grid[1]) for x in range(grid[0])]
            for (row, column), places_of_tile in zip(places, tiles, strict=True):
                text += f"<|img_row_{row}_col_{column}|>" + places_of_tile
            text += "<|img_thumbnail|>"
        return text + whole + "<|image_end|>"

    def inputs(
        self, directory: Path, text: str, images: Sequence[Image.Image]
    ) -> dict[str, Tensor]:
        """The inputs of transformers' model."""
        for image in images:
            text = text.replace("<image>", self.text(image).replace("<image>", "\0"), 1)
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
        ids = tokenizer(
            text.replace("\0", "<image>"), add_special_tokens=False, return_tensors="pt"
        )
        patches = [one for image in images for one in self.patches(image)]
        most = max(self.most, self.fields["tile_size"] ** 2) // self.patch**2
        padded = [
            F.pad(one.flatten(0, 1), (0, 0, 0, most - one[..., 0].numel())) for one in patches
        ]
        mask = [(torch.arange(most) < one[..., 0].numel()).int() for one in patches]
        return {
            **{"input_ids": ids["input_ids"], "attention_mask": ids["attention_mask"]},
            **{"pixel_values": torch.stack(padded), "pixel_attention_mask": torch.stack(mask)},
            "spatial_shapes": torch.tensor([one.shape[:2] for one in patches]),
        }
