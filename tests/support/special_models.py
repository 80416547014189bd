"""The embedded model with special tokens of another family, which it never saw."""

import json
import shutil
from pathlib import Path

from support.exported import Quiet

from exporter.catalogue.names import EMBEDDED
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

HARMONY = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>")


def export_with_special_tokens(directory: Path, names: tuple[str, ...], template: str) -> Path:
    """Tokens of its vocabulary become special ones where they have these names already; the last
    tokens of the vocabulary become the others."""
    checkpoint = shutil.copytree(EMBEDDED, directory / "checkpoint")
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    new = [name for name in names if name not in vocab]
    by_id = {number: text for text, number in vocab.items()}
    last = sorted(by_id)[len(by_id) - len(new) :]
    ids = {**vocab, **dict(zip(new, last, strict=True))}
    gone = {by_id[number] for number in last}
    for text in gone:
        del vocab[text]
    pairs = [m.split(" ") if isinstance(m, str) else m for m in tokenizer["model"]["merges"]]
    kept = [pair for pair in pairs if gone.isdisjoint([*pair, "".join(pair)])]
    tokenizer["model"]["merges"] = kept
    like = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"] += [{**like, "content": name, "id": ids[name]} for name in names]
    (checkpoint / "tokenizer.json").write_text(json.dumps(tokenizer))
    (checkpoint / "chat_template.jinja").write_text(template)
    options = ExportOptions(
        model=str(checkpoint),
        out=directory / "special.pte",
        scheme=Scheme("rtn4"),
        delegate="cpu",
    )
    return export_model(options, Quiet()).out
