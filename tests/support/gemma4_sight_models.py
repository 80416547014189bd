"""A small random Gemma 4 that sees, in a directory of Hugging Face's form, and what its processor
makes: its resizing by torchvision, which is no requirement here, is written again."""

import json
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
from transformers.models.gemma4.image_processing_pil_gemma4 import (
    get_aspect_ratio_preserving_size,
)

PATCH, SQUARE, ROWS = 4, 3, 70
PAD = 7  # another token than the first, whose numbers stand behind those of a picture
PLACE, BEFORE, AFTER = "<|image|>", "<|image>", "<image|>"
SPECIAL = ("<bos>", "<turn|>", PLACE, BEFORE, AFTER, "<|turn>")
NAMES = {"image_token": PLACE, "boi_token": BEFORE, "eoi_token": AFTER}
SMALL: dict[str, Any] = {"patch_size": PATCH, "pooling_kernel_size": SQUARE}
SMALL |= {"max_soft_tokens": ROWS}
TEMPLATE = (
    "{% for message in messages %}<|turn>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] | trim }}{% else %}"
    "{% for item in message['content'] %}{% if item['type'] == 'image' %}<|image|>"
    "{% else %}{{ item['text'] | trim }}{% endif %}{% endfor %}{% endif %}<turn|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)


def config(**vision: Any) -> Any:
    text = {
        **{"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
        **{"global_head_dim": 32, "sliding_window": 40, "num_kv_shared_layers": 2},
        **{"vocab_size": BYTES + len(SPECIAL), "vocab_size_per_layer_input": BYTES + len(SPECIAL)},
        **{"hidden_size_per_layer_input": 32, "max_position_embeddings": 2048},
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        **{"pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END},
    }
    known = {
        **{"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2},
        **{"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 16},
        **{"patch_size": PATCH, "pooling_kernel_size": SQUARE, "position_embedding_size": 256},
        **{"use_clipped_linears": True, "standardize": True, **vision},
    }
    return transformers.Gemma4Config(
        text_config=text,
        vision_config=known,
        image_token_id=IMAGE,
        boi_token_id=IMAGE + 1,
        eoi_token_id=IMAGE + 2,
        video_token_id=None,
        audio_token_id=None,
    )


def write_seeing(directory: Path, factor: float = 8, **vision: Any) -> Any:
    """Writes a checkpoint, and returns transformers' model of it.

    Args:
        factor: of its random weights; the usual one makes a token depend on pictures and places.
        vision: fields of its vision_config.
    """
    torch.manual_seed(5)
    model = transformers.Gemma4ForConditionalGeneration(config(**vision)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embed_tokens" not in name:
                parameter.mul_(factor)
            if "norm.weight" in name:
                parameter.add_(torch.rand_like(parameter) / 4)
            if "position_embedding_table" in name:
                parameter.normal_()
        for name, buffer in model.model.vision_tower.named_buffers():
            last = name.rpartition(".")[2]
            if last.endswith("_min") or last.endswith("_max"):
                buffer.fill_((1.0 if last.endswith("_max") else -1.5) + float(torch.rand(())))
            if last.startswith("std_"):
                buffer.uniform_(0.5, 1.5)
    model.save_pretrained(directory)
    write_processor(directory)
    return model


def write_processor(directory: Path, **fields: Any) -> None:
    """Writes how pictures and texts are read."""
    write_tokenizer(directory, SPECIAL)
    names = directory / "tokenizer_config.json"
    own = {**json.loads(names.read_text()), "chat_template": TEMPLATE, **NAMES}
    names.write_text(json.dumps(own))
    kind = {"image_processor_type": "Gemma4ImageProcessor"}
    path = directory / "preprocessor_config.json"
    path.write_text(json.dumps({**kind, **SMALL, **fields}))


class Processor:
    """
    Args:
        fields: of the processor of pictures.
    """

    def __init__(self, **fields: Any) -> None:
        known = {"patch_size": 16, "pooling_kernel_size": 3, "max_soft_tokens": 280, **fields}
        self.patch, self.square = known["patch_size"], known["pooling_kernel_size"]
        self.patches_at_most = known["max_soft_tokens"] * self.square**2

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height of the picture that is read."""
        down, across = get_aspect_ratio_preserving_size(
            height, width, self.patch, self.patches_at_most, self.square
        )
        return across, down

    def rows(self, image: Image.Image) -> int:
        width, height = self.size(*image.size)
        return width * height // (self.square * self.patch) ** 2

    def patches(self, image: Image.Image) -> Tensor:
        """(height, width, numbers), from 0 to 1, the colors of a pixel together."""
        width, height = self.size(*image.size)
        pixels = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)[None]
        if image.size != (width, height):
            size = height, width
            pixels = F.interpolate(pixels, size=size, mode="bicubic", antialias=True)
        cut = (pixels[0] * (1 / 255)).unflatten(2, (-1, self.patch)).unflatten(1, (-1, self.patch))
        return cut.permute(1, 3, 2, 4, 0).flatten(2)

    def pictures(self, images: Sequence[Image.Image]) -> dict[str, Tensor]:
        """The inputs of what sees."""
        pixels, places = [], []
        for image in images:
            patches = self.patches(image)
            height, width, _ = patches.shape
            grid = torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy")
            lacking = (0, 0, 0, self.patches_at_most - height * width)
            pixels.append(F.pad(patches.flatten(0, 1), lacking))
            places.append(F.pad(torch.stack(grid, -1).flatten(0, 1), lacking, value=-1))
        return {"pixel_values": torch.stack(pixels), "image_position_ids": torch.stack(places)}

    def inputs(
        self, directory: Path, text: str, images: Sequence[Image.Image]
    ) -> dict[str, Tensor]:
        """The inputs of transformers' model."""
        for image in images:
            text = text.replace(PLACE, BEFORE + "\0" * self.rows(image) + AFTER, 1)
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
        text = text.replace("\0", PLACE)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        seen = self.pictures(images) if images else {}
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **seen}
