"""A small random Whisper in a directory of Hugging Face's form, with a tokenizer of bytes."""

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

SPECIAL = (
    *("<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>"),
    *("<|transcribe|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"),
)
BYTES = 256
SPECIALS = range(BYTES, BYTES + len(SPECIAL))
END, START, ENGLISH, GERMAN, TRANSLATE, TRANSCRIBE, PREVIOUS, _, NO_TIMESTAMPS = SPECIALS
WINDOW = 2  # seconds
VOCABULARY = BYTES + len(SPECIAL) + 50 * WINDOW + 1


def _tokenizer() -> tokenizers.Tokenizer:
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: number for number, text in enumerate(alphabet)}
    library = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = tokenizers.decoders.ByteLevel()
    library.add_special_tokens(list(SPECIAL))
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|startoftranscript|> <|notimestamps|> $A <|endoftext|>",
        special_tokens=[
            (name, library.token_to_id(name))
            for name in ("<|startoftranscript|>", "<|notimestamps|>", "<|endoftext|>")
        ],
    )
    return library


def write_whisper(
    directory: Path,
    languages: bool = True,
    timed: bool = False,
    aligned: bool = True,
    **fields: Any,
) -> Any:
    """Writes a checkpoint, and returns transformers' model of it.

    Args:
        languages: whether it knows several.
        timed: whether it writes times, unasked too, as real models hardly do.
        aligned: whether heads are named whose attention tells when words were spoken.
        fields: of its config.
    """
    torch.manual_seed(5)
    ends = {"pad_token_id": END, "bos_token_id": END, "eos_token_id": END}
    sizes = {
        **{"d_model": 48, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 96},
        **{"encoder_attention_heads": 4, "decoder_attention_heads": 3, "decoder_ffn_dim": 80},
        **{"max_source_positions": 50 * WINDOW, "max_target_positions": 30},
    }
    config = transformers.WhisperConfig(
        **{"vocab_size": VOCABULARY, "decoder_start_token_id": START, **ends, **sizes, **fields}
    )
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():  # so that a token depends on the sound and its place, not the one before
        for name, parameter in model.named_parameters():
            parameter.mul_(1 if "embed_tokens" in name or parameter.dim() == 1 else 8)
    model.save_pretrained(directory)
    transformers.WhisperFeatureExtractor(chunk_length=WINDOW).save_pretrained(directory)
    _tokenizer().save(str(directory / "tokenizer.json"))
    generation = {
        **{"decoder_start_token_id": START, "no_timestamps_token_id": NO_TIMESTAMPS, **ends},
        **{"suppress_tokens": [11, 12, *range(END + 1, NO_TIMESTAMPS if timed else VOCABULARY)]},
        **{"begin_suppress_tokens": [32, END]},
        **{"prev_sot_token_id": PREVIOUS, "max_initial_timestamp_index": 50},
        **{"is_multilingual": languages, "return_timestamps": False, "max_length": 30},
    }
    if aligned:
        last, heads = config.decoder_layers - 1, config.decoder_attention_heads
        generation["alignment_heads"] = [[last, heads - 1], [0, heads // 2], [last, 0]]
    if languages:
        generation["lang_to_id"] = {"<|en|>": ENGLISH, "<|de|>": GERMAN}
        generation["task_to_id"] = {"translate": TRANSLATE, "transcribe": TRANSCRIBE}
    (directory / "generation_config.json").write_text(json.dumps(generation))
    model.generation_config = transformers.GenerationConfig(**generation)
    return model
