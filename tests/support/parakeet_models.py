"""A small random Parakeet CTC in a directory of Hugging Face's form, with a tokenizer of words'
parts."""

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPACE = "▁"
PARTS = ["<unk>", SPACE, *LETTERS, *(SPACE + one for one in LETTERS)]
BLANK = len(PARTS)
WINDOW = 3  # seconds


def _tokenizer() -> transformers.ParakeetTokenizer:
    merges = [(SPACE, one) for one in LETTERS]
    library = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            {text: number for number, text in enumerate(PARTS)}, merges, unk_token="<unk>"
        )
    )
    library.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    library.decoder = tokenizers.decoders.Metaspace()
    library.add_special_tokens(["<pad>"])
    return transformers.ParakeetTokenizer(
        tokenizer_object=library, unk_token="<unk>", pad_token="<pad>"
    )


def write_parakeet(directory: Path, **fields: Any) -> tuple[Any, Any]:
    """Writes a checkpoint, and returns transformers' model of it, and its processor.

    Args:
        fields: of its encoder's config.
    """
    torch.manual_seed(5)
    sizes = {
        **{"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4},
        **{"num_hidden_layers": 2, "subsampling_conv_channels": 16},
    }
    config = transformers.ParakeetCTCConfig(
        vocab_size=BLANK + 1, pad_token_id=BLANK, encoder_config={**sizes, **fields}
    )
    model = transformers.ParakeetForCTC(config).eval()
    with torch.no_grad():  # so that tokens depend on the sound, and some states have none
        for name, tensor in model.state_dict().items():
            if "norm" in name and tensor.dim():
                tensor.add_(0.2 * torch.rand_like(tensor))
            elif "bias" in name:
                tensor.add_(0.02 * torch.randn_like(tensor))
            elif tensor.dim() > 1:
                tensor.mul_(8)
        states = model.encoder(torch.randn(1, 400, config.encoder_config.num_mel_bins))
        head = model.ctc_head.weight.mul_(4)[..., 0]
        logits = states.last_hidden_state[0] @ head.T
        model.ctc_head.bias.copy_(-logits.mean(0))
        model.ctc_head.bias[BLANK] += 2 * logits.std(0).mean()
        model.ctc_head.bias[: PARTS.index(LETTERS[0])] = -100
    model.save_pretrained(directory)
    processor = transformers.ParakeetProcessor(
        transformers.ParakeetFeatureExtractor(), _tokenizer(), decoder_type="ctc"
    )
    processor.save_pretrained(directory)
    path = directory / "processor_config.json"
    fields = json.loads(path.read_text())
    fields["feature_extractor"]["chunk_length"] = WINDOW
    path.write_text(json.dumps(fields))
    return model, processor
