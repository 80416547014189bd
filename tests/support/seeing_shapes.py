"""The shapes of published models that see, with random weights, for measuring time and memory.

    PYTHONPATH=.:tests python tests/support/seeing_shapes.py NAME DIR

writes a checkpoint into DIR, in bfloat16. The vocabulary is the bytes; the others are unknown.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from support import gemma4_sight_models, patched_models, seeing_models, turned_models
from support.published_shapes import SHAPES as TEXTS
from support.seeing_models import END, IMAGE, START

_ENDS = {"pad_token_id": END, "bos_token_id": START, "eos_token_id": END}
_SIGLIP = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12}
_SIGLIP |= {"num_attention_heads": 12, "patch_size": 16}
_FULL = (2, 5, 8, 10, 12, 14)  # layers of LFM2 that attend


def smolvlm2(directory: Path) -> Any:
    """SmolVLM2 256M."""
    text = {
        **{"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "head_dim": 64},
        **{"num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3},
        **{"vocab_size": 49280, "max_position_embeddings": 8192, "rope_theta": 1e5, **_ENDS},
    }
    config = transformers.SmolVLMConfig(
        text_config=text,
        vision_config={**_SIGLIP, "image_size": 512},
        image_token_id=IMAGE,
        scale_factor=4,
        tie_word_embeddings=False,
        **_ENDS,
    )
    seeing_models.write_tokenizer(directory, seeing_models.SPECIAL)
    sizes: dict[str, Any] = {
        "size": {"longest_edge": 2048},
        "max_image_size": {"longest_edge": 512},
    }
    seeing_models.picture_processor(**sizes).save_pretrained(directory)
    return config


def lfm2_vl(directory: Path) -> Any:
    """LFM2-VL 450M."""
    kinds = ["full_attention" if index in _FULL else "conv" for index in range(16)]
    text = {
        **{"model_type": "lfm2", "hidden_size": 1024, "intermediate_size": 6656},
        **{"num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 8},
        **{"vocab_size": 65536, "layer_types": kinds, **_ENDS},
    }
    vision = {**_SIGLIP, "num_patches": 256, "vision_use_head": False}
    patched_models.write_tokenizer(directory, patched_models.SPECIAL)
    tiles = {"min_image_tokens": 64, "max_image_tokens": 256, "max_tiles": 10}
    patched_models.write_processor(directory, encoder_patch_size=16, tile_size=512, **tiles)
    return transformers.Lfm2VlConfig(vision_config=vision, text_config=text, image_token_id=IMAGE)


def qwen35(directory: Path) -> Any:
    """Qwen3.5 0.8B."""
    vision = {
        **{"depth": 12, "hidden_size": 768, "intermediate_size": 3072, "num_heads": 12},
        **{"patch_size": 16, "num_position_embeddings": 2304, "out_hidden_size": 1024},
    }
    seeing_models.write_tokenizer(directory, turned_models.SPECIAL)
    names = directory / "tokenizer_config.json"
    own = {**json.loads(names.read_text()), "chat_template": turned_models.TEMPLATE}
    names.write_text(json.dumps(own))
    pixels = {"shortest_edge": 1 << 16, "longest_edge": 1 << 24}
    turned_models.write_processor(directory, patch_size=16, size=pixels)
    return transformers.AutoConfig.for_model(
        "qwen3_5",
        vision_config=vision,
        text_config={**TEXTS["qwen3.5-0.8b"], **_ENDS},
        image_token_id=IMAGE,
        video_token_id=IMAGE + 2,
        tie_word_embeddings=True,
    )


def gemma4(directory: Path) -> Any:
    """What sees of Gemma 4 E2B, in front of a language model of two narrow layers."""
    text = {
        **{"hidden_size": 1536, "intermediate_size": 256, "num_hidden_layers": 2},
        **{"num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256},
        **{"global_head_dim": 512, "vocab_size": 512, "vocab_size_per_layer_input": 512},
        **{"hidden_size_per_layer_input": 256, "pad_token_id": 0},
        "layer_types": ["sliding_attention", "full_attention"],
    }
    sizes = {"patch_size": 16, "pooling_kernel_size": 3, "max_soft_tokens": 280}
    gemma4_sight_models.write_processor(directory, **sizes)
    return transformers.Gemma4Config(
        text_config={**_ENDS, **text},
        vision_config={"use_clipped_linears": True},
        image_token_id=IMAGE,
        boi_token_id=IMAGE + 1,
        eoi_token_id=IMAGE + 2,
        video_token_id=None,
        audio_token_id=None,
    )


SHAPES = {
    **{"smolvlm2-256m": smolvlm2, "lfm2-vl-450m": lfm2_vl, "qwen3.5-0.8b": qwen35},
    "gemma4-e2b-sight": gemma4,
}


def model_of(config: Any) -> Any:
    return transformers.AutoModelForImageTextToText.from_config(config)


def write(name: str, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    config = SHAPES[name](directory)
    torch.set_default_dtype(torch.bfloat16)
    model = model_of(config)
    for place, buffer in model.named_buffers():  # bounds of Gemma's linears
        if place.endswith(("_min", "_max")):
            buffer.fill_(30.0 if place.endswith("_max") else -30.0)
    model.save_pretrained(directory)


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
