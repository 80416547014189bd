"""A small random Qwen3.5 or Qwen3-VL that sees, in a directory of Hugging Face's form, and what
their processor makes: its resizing by torchvision, which is no requirement here, is written
again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from PIL import Image
from support.families.qwen3_5_text import QWEN3_5
from support.families.qwen3_vl_text import SECTIONS
from support.seeing_models import BYTES, END, IMAGE, START, write_tokenizer
from torch import Tensor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

PATCH, TRAINED, UNIT = 4, 4, 8
PLACE = "<|image_pad|>"
SPECIAL = ("<|im_start|>", "<|im_end|>", PLACE, "<|vision_start|>", "<|vision_end|>")
SMALL: dict[str, Any] = {
    **{"patch_size": PATCH, "merge_size": 2, "temporal_patch_size": 2},
    "size": {"shortest_edge": 4 * UNIT**2, "longest_edge": 16 * UNIT**2 + 50},
}
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for item in message['content'] %}{% if item['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ item['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def config(model_type: str = "qwen3_5") -> Any:
    vision = {
        **{"depth": 2, "hidden_size": 48, "intermediate_size": 80, "num_heads": 3},
        **{"patch_size": PATCH, "num_position_embeddings": TRAINED**2, "out_hidden_size": 64},
    }
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    rope |= {"mrope_section": [2, 1, 1], "mrope_interleaved": True}
    text = {
        **{"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2},
        **{"num_attention_heads": 4, "num_key_value_heads": 2},
        **{"vocab_size": BYTES + len(SPECIAL), "max_position_embeddings": 2048},
        **{"pad_token_id": END, "bos_token_id": START, "eos_token_id": END},
    }
    if model_type == "qwen3_5":
        text |= {**QWEN3_5, "layer_types": ["linear_attention", "full_attention"]}
        text |= {"rope_parameters": rope}
    else:
        vision |= {"depth": 3, "deepstack_visual_indexes": [0, 1]}
        text |= {"num_hidden_layers": 3, "head_dim": 16, "tie_word_embeddings": True}
        text |= {"rope_parameters": {**rope, "partial_rotary_factor": 1.0, **SECTIONS}}
    return transformers.AutoConfig.for_model(
        model_type,
        vision_config=vision,
        text_config=text,
        image_token_id=IMAGE,
        video_token_id=BYTES + len(SPECIAL) - 1,
        tie_word_embeddings=model_type == "qwen3_vl",
    )


def write_turned(
    directory: Path, factor: float = 8, model_type: str = "qwen3_5", **fields: Any
) -> Any:
    """Writes a checkpoint, and returns transformers' model of it.

    Args:
        factor: of its random weights; the usual one makes a token depend on pictures and places.
        fields: of the processor of pictures.
    """
    torch.manual_seed(5)
    model = transformers.AutoModelForImageTextToText.from_config(config(model_type)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embed_tokens" not in name and "conv1d" not in name:
                parameter.mul_(factor)
    model.save_pretrained(directory)
    write_tokenizer(directory, SPECIAL)
    names = directory / "tokenizer_config.json"
    names.write_text(json.dumps({**json.loads(names.read_text()), "chat_template": TEMPLATE}))
    write_processor(directory, **fields)
    return model


def write_processor(directory: Path, **fields: Any) -> None:
    kind = {"image_processor_type": "Qwen2VLImageProcessorFast"}
    path = directory / "preprocessor_config.json"
    path.write_text(json.dumps({**kind, **SMALL, **fields}))


class Processor:
    """
    Args:
        fields: of the processor of pictures.
    """

    def __init__(self, **fields: Any) -> None:
        known: dict[str, Any] = {
            "patch_size": 14,
            "size": {"shortest_edge": 56**2, "longest_edge": 28**2 * 1280},
            "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711],
            **fields,
        }
        self.fields, self.patch = known, known["patch_size"]

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height of the picture that is read."""
        bounds = self.fields["size"]
        down, across = smart_resize(
            height, width, 2 * self.patch, bounds["shortest_edge"], bounds["longest_edge"]
        )
        return across, down

    def rows(self, image: Image.Image) -> int:
        width, height = self.size(*image.size)
        return width * height // (2 * self.patch) ** 2

    def patches(self, image: Image.Image) -> Tensor:
        """(height, width, numbers), colors apart."""
        width, height = self.size(*image.size)
        pixels = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)[None]
        if image.size != (width, height):
            size = height, width
            pixels = F.interpolate(pixels, size=size, mode="bicubic", antialias=True)
        levels = [torch.tensor(self.fields[name]) * 255.0 for name in ("image_mean", "image_std")]
        mean, std = (one[:, None, None] for one in levels)
        cut = ((pixels[0].float() - mean) / std).unflatten(2, (-1, self.patch))
        return cut.unflatten(1, (-1, self.patch)).permute(1, 3, 0, 2, 4).flatten(2)

    def inputs(
        self, directory: Path, text: str, images: Sequence[Image.Image]
    ) -> dict[str, Tensor]:
        """The inputs of transformers' model."""
        for image in images:
            text = text.replace(PLACE, "\0" * self.rows(image), 1)
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
        text = text.replace("\0", PLACE)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if images:
            patches = [self.patches(image) for image in images]
            flat = [in_squares(one).unflatten(1, (3, 1, -1)) for one in patches]
            inputs |= {
                "pixel_values": torch.cat(flat).expand(-1, -1, 2, -1).flatten(1),
                "image_grid_thw": torch.tensor([[1, *one.shape[:2]] for one in patches]),
                "mm_token_type_ids": (ids == IMAGE).int(),
            }
        return inputs


def in_squares(patches: Tensor) -> Tensor:
    """Patches (height, width, numbers) by squares of two by two, (patches, numbers)."""
    return patches.unflatten(1, (-1, 2)).unflatten(0, (-1, 2)).transpose(1, 2).flatten(0, 3)
