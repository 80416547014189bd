"""A small random Gemma 3 that sees, in a directory of Hugging Face's form."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from support.seeing_models import BYTES, END, IMAGE, START, write_tokenizer

SIDE, ROWS = 32, 16
PLACE = "<start_of_image>"
SPECIAL = ("<bos>", "<end_of_turn>", "<image_soft_token>", PLACE, "<end_of_image>")
SPECIAL += ("<start_of_turn>",)
NAMES = {"image_token": SPECIAL[2], "boi_token": PLACE, "eoi_token": SPECIAL[4]}
TEMPLATE = (
    "{% for message in messages %}<start_of_turn>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] | trim }}{% else %}"
    "{% for item in message['content'] %}{% if item['type'] == 'image' %}<start_of_image>"
    "{% else %}{{ item['text'] | trim }}{% endif %}{% endfor %}{% endif %}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def config(side: int = SIDE, rows: int = ROWS, window: int = 12) -> Any:
    text = {
        **{"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
        **{"vocab_size": BYTES + len(SPECIAL), "max_position_embeddings": 2048},
        **{"sliding_window": window, "query_pre_attn_scalar": 16},
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        **{"pad_token_id": END, "bos_token_id": START, "eos_token_id": END},
    }
    vision = {
        **{"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2},
        **{"num_attention_heads": 3, "image_size": side, "patch_size": 4},
        "vision_use_head": False,
    }
    return transformers.Gemma3Config(
        text_config=text,
        vision_config=vision,
        mm_tokens_per_image=rows,
        image_token_index=IMAGE,
        boi_token_index=IMAGE + 1,
        eoi_token_index=IMAGE + 2,
    )


def write_seeing(directory: Path, factor: float = 8, **sizes: int) -> Any:
    """Writes a checkpoint, and returns transformers' model of it.

    Args:
        factor: of its random weights; the usual one makes a token depend on pictures and places.
        sizes: those of config().
    """
    torch.manual_seed(5)
    model = transformers.Gemma3ForConditionalGeneration(config(**sizes)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embed_tokens" not in name:
                parameter.mul_(factor)
            if "mm_input_projection_weight" in name:  # zeros, as it is made
                parameter.normal_(std=0.5)
            if "norm.weight" in name:
                parameter.add_(torch.rand_like(parameter) / 4)
    model.save_pretrained(directory)
    write_tokenizer(directory, SPECIAL)
    names = directory / "tokenizer_config.json"
    own = {**json.loads(names.read_text()), "chat_template": TEMPLATE, **NAMES}
    names.write_text(json.dumps(own))
    write_processor(directory, **({"side": sizes["side"]} if "side" in sizes else {}))
    return model


def write_processor(directory: Path, side: int = SIDE, **fields: Any) -> None:
    known = {"image_processor_type": "Gemma3ImageProcessor", "resample": 2}
    known |= {"size": {"height": side, "width": side}, "do_convert_rgb": None}
    path = directory / "preprocessor_config.json"
    path.write_text(json.dumps({**known, **fields}))


def picture_processor(side: int = SIDE, **fields: Any) -> Any:
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

    return Gemma3ImageProcessorPil(**{"size": {"height": side, "width": side}, **fields})


def processor_of(directory: Path, side: int = SIDE, rows: int = ROWS) -> Any:
    """transformers' processor of such a model."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(
        directory, extra_special_tokens=NAMES
    )
    return transformers.Gemma3Processor(picture_processor(side), tokenizer, image_seq_length=rows)
