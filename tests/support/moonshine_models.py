"""A small random Moonshine in a directory of Hugging Face's form, with a tokenizer of bytes."""

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

BYTES = 256
START, END = BYTES, BYTES + 1
VOCABULARY = BYTES + 2
WINDOW = 3  # seconds
MOST_TOKENS = 24


def write_tokenizer(directory: Path) -> None:
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    library = tokenizers.Tokenizer(
        tokenizers.models.BPE({text: number for number, text in enumerate(alphabet)}, [])
    )
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = tokenizers.decoders.ByteLevel()
    library.add_special_tokens(["<s>", "</s>"])
    library.save(str(directory / "tokenizer.json"))


def write_extractor(directory: Path, seconds: int) -> None:
    transformers.Wav2Vec2FeatureExtractor().save_pretrained(directory)
    extractor = directory / "preprocessor_config.json"
    text = extractor.read_text().replace('"do_normalize": true', '"do_normalize": false')
    extractor.write_text(text.replace("{", f'{{"chunk_length": {seconds},', 1))


def write_moonshine(directory: Path, **fields: Any) -> Any:
    """Writes a checkpoint, and returns transformers' model of it.

    Args:
        fields: of its config.
    """
    torch.manual_seed(3)
    sizes = {
        **{"hidden_size": 48, "intermediate_size": 80, "max_position_embeddings": MOST_TOKENS},
        **{"encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 3},
        **{"encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4},
    }
    ends = {"bos_token_id": START, "decoder_start_token_id": START, "eos_token_id": END}
    config = transformers.MoonshineConfig(**{"vocab_size": VOCABULARY, **ends, **sizes, **fields})
    model = transformers.MoonshineForConditionalGeneration(config).eval()
    with torch.no_grad():  # so that a token depends on the sound and its place, not the one before
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
            else:
                parameter.mul_(1 if "embed_tokens" in name or parameter.dim() == 1 else 8)
    model.save_pretrained(directory)
    write_extractor(directory, WINDOW)
    write_tokenizer(directory)
    model.generation_config = transformers.GenerationConfig(**ends, max_length=MOST_TOKENS)
    model.generation_config.save_pretrained(directory)
    return model
