"""A small random BERT in a directory, as sentence-transformers stores such models."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from torch.nn import functional as F
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WORDS = "the cat sat on a mat and stock markets fell sharp ##ly query : naive 1 2 . , !".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LONGEST = 20  # tokens of a text
TEXTS = (
    "The cat sat on the mat.",
    "",
    "Stock markets fell sharply, and the cat sat!",
    "na\u00efve [SEP] \u732b",
    " ".join(["the cat sat"] * 20),
    "a",
)


def tokenizer() -> PreTrainedTokenizerFast:
    """WordPiece with a closing [SEP]."""
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS, *"bcdefgh"])}
    library = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=library, **names)


def save_bert(directory: Path, pooling: str = "mean", normalize: bool = True) -> BertModel:
    """Writes a model with random weights, whose files say how to pool."""
    torch.manual_seed(0)
    tokens = tokenizer()
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=100,
        max_position_embeddings=40,
        hidden_act="gelu",
    )
    model = BertModel(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    model.save_pretrained(directory)
    tokens.save_pretrained(directory)
    modules = ["Transformer", "Pooling", *["Normalize"] * normalize]
    places = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    write(
        directory / "modules.json",
        [
            {"idx": at, "name": str(at), "path": places[kind], "type": f"st.models.{kind}"}
            for at, kind in enumerate(modules)
        ],
    )
    write(directory / "1_Pooling" / "config.json", {f"pooling_mode_{pooling}": True})
    write(directory / "sentence_bert_config.json", {"max_seq_length": LONGEST})
    write(
        directory / "config_sentence_transformers.json",
        {"prompts": {"query": "query: ", "plain": ""}, "default_prompt_name": None},
    )
    return model


def write(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


@torch.no_grad()
def reference(
    model: BertModel, texts: list[str], pooling: str = "mean_tokens", normalize: bool = True
) -> Tensor:
    """What transformers computes, a text at a time: float32 (texts, hidden_size)."""
    tokens, rows = tokenizer(), []
    for text in texts:
        ids = tokens(text, truncation=True, max_length=LONGEST, return_tensors="pt")
        hidden = model(**ids).last_hidden_state
        rows.append(hidden.mean(1) if pooling == "mean_tokens" else hidden[:, 0])
    found = torch.cat(rows)
    return F.normalize(found) if normalize else found
