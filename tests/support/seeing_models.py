"""A small random SmolVLM in a directory of Hugging Face's form, with a tokenizer of bytes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

SIDE = 32  # of a tile
LONGEST = 96
ROWS = 4
_TILES = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
SPECIAL = (
    *("<|im_start|>", "<end_of_utterance>", "<image>", "<fake_token_around_image>"),
    *("<global-img>", *_TILES),
)
BYTES = 257  # with two line feeds
START, END, IMAGE = range(BYTES, BYTES + 3)
VOCABULARY = BYTES + len(SPECIAL)
TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}"
    "{% if message['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}"
    "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}"
    "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}"
    "{% for call in message['tool_calls'] or [] %}{{ call['function']['name'] }}{% endfor %}"
    "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)


def alphabet() -> list[str]:
    """How the tokenizer writes bytes, in the order of their tokens."""
    return sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def _tokenizer() -> tokenizers.Tokenizer:
    vocabulary = {text: number for number, text in enumerate(alphabet())}
    newline = "\u010a"  # as ByteLevel writes it
    vocabulary[2 * newline] = len(vocabulary)
    library = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [(newline, newline)]))
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = tokenizers.decoders.ByteLevel()
    return library


def write_tokenizer(directory: Path, special: Sequence[str]) -> None:
    """
    Args:
        special: tokens, of which the first begins texts and the second ends them.
    """
    tokenizer = _tokenizer()
    tokenizer.add_special_tokens(list(special))
    tokenizer.save(str(directory / "tokenizer.json"))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE}
    names |= {"bos_token": special[0], "eos_token": special[1]}
    (directory / "tokenizer_config.json").write_text(json.dumps(names))


def write_seeing(directory: Path, model_type: str = "smolvlm", **fields: Any) -> Any:
    """Writes a checkpoint, and returns transformers' model of it.

    Args:
        fields: of the processor of pictures.
    """
    torch.manual_seed(5)
    ends = {"pad_token_id": END, "bos_token_id": START, "eos_token_id": END}
    text = {
        **{"model_type": "llama", "hidden_size": 64, "intermediate_size": 96},
        **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
        **{"vocab_size": VOCABULARY, "max_position_embeddings": 2048, **ends},
    }
    vision = {
        **{"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2},
        **{"num_attention_heads": 3, "image_size": SIDE, "patch_size": 8},
    }
    known: Any = {
        "smolvlm": (transformers.SmolVLMConfig, transformers.SmolVLMForConditionalGeneration),
        "idefics3": (transformers.Idefics3Config, transformers.Idefics3ForConditionalGeneration),
    }
    config_class, model_class = known[model_type]
    config = config_class(
        text_config=text,
        vision_config=vision,
        image_token_id=IMAGE,
        scale_factor=2,
        tie_word_embeddings=False,
        **ends,
    )
    model = model_class(config).eval()
    with torch.no_grad():  # so that a token depends on the pictures and its place
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(8 if "embed_tokens" not in name else 1)
    model.save_pretrained(directory)
    write_tokenizer(directory, SPECIAL)
    processor = picture_processor(**fields)
    processor.save_pretrained(directory)
    return model


def picture_processor(**fields: Any) -> Any:
    from transformers.models.idefics3.image_processing_pil_idefics3 import (
        Idefics3ImageProcessorPil,
    )

    sizes: dict[str, Any] = {
        "size": {"longest_edge": LONGEST},
        "max_image_size": {"longest_edge": SIDE},
    }
    return Idefics3ImageProcessorPil(**{**sizes, **fields})


def processor_of(directory: Path, **fields: Any) -> Any:
    """transformers' processor of such a model."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
    return transformers.Idefics3Processor(
        picture_processor(**fields), tokenizer, image_seq_len=ROWS
    )
