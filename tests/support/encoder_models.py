"""Small random encoders in directories, as sentence-transformers stores such models."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support.encoders import DATA
from support.once import made_once
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from torch.nn import functional as F
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from exporter.embedding.pipeline import EmbeddingOptions, export_embedding
from quant.scheme import Scheme

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


def save_bert(directory: Path, pooling: str = "mean_tokens", normalize: bool = True) -> BertModel:
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


SIZES = {"hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 3}
SIZES |= {"vocab_size": 1200, "intermediate_size": 40, "max_position_embeddings": 64}


def save_encoder(name: str, case: str, directory: Path) -> PreTrainedModel:
    """Writes the weights and the config of a case, as transformers does."""
    data = DATA[name]
    torch.manual_seed(1)
    model = data.auto(data.config(**{**SIZES, **data.cases[case]})).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(directory)
    return model


def save_whole(name: str, directory: Path) -> Callable[[list[str], str], Tensor]:
    """Writes a model with all files of one; returns what transformers and torch compute of texts
    that a prompt begins."""
    data = DATA[name]
    assert data.whole is not None and data.tokenizer is not None
    model = save_encoder(name, data.whole, directory).base_model
    _save_tokenizer(data.tokenizer(), data.template, directory)
    dense = [_save_dense(at, *sizes, directory) for at, sizes in enumerate(data.dense)]
    kinds = ["Transformer", "Pooling", *["Dense"] * len(dense), "Normalize"]
    modules = [
        {"path": "" if at == 0 else f"{at}_{kind}", "type": f"st.models.{kind}"}
        for at, kind in enumerate(kinds)
    ]
    write(directory / "modules.json", modules)
    write(directory / "1_Pooling" / "config.json", {"pooling_mode": data.pooling})
    default = next(iter(data.prompts), None)
    prompts = {"prompts": data.prompts, "default_prompt_name": default}
    write(directory / "config_sentence_transformers.json", prompts)
    tokens = AutoTokenizer.from_pretrained(directory)

    @torch.no_grad()
    def embed(texts: list[str], prompt: str) -> Tensor:
        rows = []
        for text in texts:
            ids = tokens(prompt + text, return_tensors="pt", truncation=True, max_length=64)
            hidden = model(input_ids=ids["input_ids"]).last_hidden_state
            row = {"mean": hidden.mean(1), "cls": hidden[:, 0], "lasttoken": hidden[:, -1]}
            rows.append(row[data.pooling])
        return F.normalize(torch.nn.Sequential(*dense)(torch.cat(rows)))

    return embed


def _save_tokenizer(document: str, template: str, directory: Path) -> None:
    library = Tokenizer.from_str(document)
    around = [token for token in template.split() if token != "$A"]
    library.add_special_tokens(around)
    special = [(token, library.token_to_id(token)) for token in around]
    whole = processors.TemplateProcessing(single=template, special_tokens=special)
    own = [library.post_processor] if library.post_processor else []
    library.post_processor = processors.Sequence([*own, whole])
    PreTrainedTokenizerFast(tokenizer_object=library, pad_token=around[-1]).save_pretrained(
        directory
    )


def _save_dense(
    at: int, size: int, width: int, activation: str, directory: Path
) -> torch.nn.Module:
    linear = torch.nn.Linear(size, width, bias=activation != "Identity")
    place = directory / f"{at + 2}_Dense"
    fields = {"in_features": size, "out_features": width, "bias": linear.bias is not None}
    write(
        place / "config.json",
        {**fields, "activation_function": f"torch.nn.modules.linear.{activation}"},
    )
    weights = {f"linear.{key}": value for key, value in linear.state_dict().items()}
    save_file(weights, place / "model.safetensors")
    return torch.nn.Sequential(linear, getattr(torch.nn, activation)())


def export_embedder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model.pte of `save_bert`'s encoder, beside its checkpoint and its ETRecord."""

    def make(directory: Path) -> Path:
        save_bert(directory)
        out = directory / "model.pte"
        record = out.with_suffix(".etrecord")
        export_embedding(EmbeddingOptions(directory, out, Scheme("rtn8"), etrecord=record))
        return out

    return made_once(tmp_path_factory, "embedder", make)
