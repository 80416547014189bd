"""A small random Moonshine for sound that arrives, in a directory of Hugging Face's form."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from support.hearing import RATE
from support.moonshine_models import END, START, VOCABULARY, write_extractor, write_tokenizer

WINDOW = 4  # seconds
MOST_TOKENS = 24
ROW = 320  # samples


def write_moonshine_streaming(directory: Path, **fields: Any) -> Any:
    """Writes a checkpoint, and returns transformers' model of it.

    Args:
        fields: of its config; `encoder` has those of the encoder's.
    """
    torch.manual_seed(5)
    encoder = {
        **{"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3},
        **{"num_attention_heads": 2, "num_key_value_heads": 2},
        "sliding_windows": [[8, 4], [6, 0], [8, 3]],
        **fields.pop("encoder", {}),
    }
    sizes = {
        **{"hidden_size": 40, "intermediate_size": 80, "num_hidden_layers": 2},
        **{"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 512},
    }
    ends = {"bos_token_id": START, "eos_token_id": END, "pad_token_id": END}
    config = transformers.MoonshineStreamingConfig(
        **{"vocab_size": VOCABULARY, **ends, **sizes, "encoder_config": encoder, **fields}
    )
    model = transformers.MoonshineStreamingForConditionalGeneration(config).eval()
    with torch.no_grad():  # so that a token depends on the sound and its place, not the one before
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("log_k"):
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif "pos_emb" not in name and "embed_tokens" not in name and parameter.dim() > 1:
                parameter.mul_(20 if "encoder_attn" in name else 8)
            if name == "proj_out.weight":
                parameter[128:] = 0  # ASCII alone
    model.save_pretrained(directory)
    write_extractor(directory, WINDOW)
    write_tokenizer(directory)
    model.generation_config = transformers.GenerationConfig(**ends, max_length=MOST_TOKENS)
    model.generation_config.save_pretrained(directory)
    return model


def expected_tokens(model: Any, samples: Any) -> list[int]:
    """What transformers makes of a sound, as its processor gives it."""
    given = transformers.Wav2Vec2FeatureExtractor(do_normalize=False)(
        np.asarray(samples),
        sampling_rate=RATE,
        padding=True,
        pad_to_multiple_of=80,
        return_attention_mask=True,
        return_tensors="pt",
    )
    generated = model.generate(**given, do_sample=False)
    return [token for token in generated[0].tolist() if token < START]
