"""Trains the embedded model from scratch on text that ships with Python.

    python -m exporter.embedded.train --docs DIR [--steps 4000] [--out exporter/embedded]

The text is the sources of the standard library (without tests and code tables) and, from DIR, the
reStructuredText sources of Python's documentation (the `_sources` folder of its HTML build, which
Debian ships as /usr/share/doc/python3.11/html/_sources in the package python3.11-doc). One file in
fifty is held out; `model_card.json` states its loss. Writes config.json,
model.safetensors (bfloat16), tokenizer.json, calibration.txt and model_card.json.

An update takes about half a second on two cores with AMX. glibc returns large blocks to the system
after each use; MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 in the
environment stops that and halves the time.
"""

import hashlib
import json
import math
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from torch.nn import functional as F

from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 4096,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "mlp_bias": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
}
SPECIAL_TOKENS = ["<|begin_of_text|>", "<|end_of_text|>"]
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LEFT_OUT = set("site-packages dist-packages test tests idle_test encodings".split())
LEFT_OUT |= set("lib2to3 pydoc_data __pycache__ turtledemo".split())
SEQ_LEN, BATCH = 512, 16  # for most updates
LONG_SEQ_LEN, LONG_BATCH = 2048, 4  # for the last tenth, so that the full context is used
CALIBRATION_BYTES = 400_000


@dataclass
class Corpus:
    train: list[str]
    held_out: list[str]


def read_corpus(docs: Path) -> Corpus:
    """Reads all texts and splits them by a hash of the name: one in fifty is held out."""
    library = Path(sysconfig.get_path("stdlib"))
    sources = [p for p in library.rglob("*.py") if not set(p.relative_to(library).parts) & LEFT_OUT]
    pages = [p for p in docs.rglob("*.txt") if p.name != "changelog.rst.txt"]
    corpus = Corpus([], [])
    for root, path in sorted([(library, p) for p in sources] + [(docs, p) for p in pages]):
        text = path.read_text(encoding="utf-8", errors="ignore").strip()
        if len(text) < 200:
            continue
        name = path.relative_to(root).as_posix()
        held_out = hashlib.sha256(name.encode()).digest()[0] % 50 == 0
        (corpus.held_out if held_out else corpus.train).append(text)
    return corpus


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Trains byte-level BPE with Llama 3's split pattern."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"],
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    bos = SPECIAL_TOKENS[0]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, CONFIG["bos_token_id"])]
    )
    return tokenizer


def encode_all(tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    """Returns all texts as one stream of ids (tokens,); each begins with BOS and ends with EOS."""
    stream: list[int] = []
    for encoding in tokenizer.encode_batch(texts):
        stream += [*encoding.ids, CONFIG["eos_token_id"]]
    return torch.tensor(stream)


def initialise(model: CausalLM, generator: torch.Generator) -> None:
    """Draws normal weights of deviation 0.02; scales matrices that write the residual by depth."""
    depth = (2 * CONFIG["num_hidden_layers"]) ** -0.5
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            std = 0.02 * (depth if name.endswith(("o_proj.weight", "down_proj.weight")) else 1)
            torch.nn.init.normal_(parameter, 0.0, std, generator=generator)


@torch.no_grad()
def held_out_loss(logits: Callable[[Tensor], Tensor], stream: Tensor) -> float:
    """Returns the mean loss in nats per token over full windows of the held-out stream."""
    windows = stream[: len(stream) // (SEQ_LEN + 1) * (SEQ_LEN + 1)].view(-1, SEQ_LEN + 1)
    total = 0.0
    for window in windows.split(BATCH):
        out = logits(window[:, :-1]).float()
        total += F.cross_entropy(out.flatten(0, 1), window[:, 1:].flatten(), reduction="sum").item()
    return total / (windows.shape[0] * SEQ_LEN)


def training_loss(model: CausalLM, window: Tensor) -> Tensor:
    """Returns the mean loss in nats per token of windows (batch, seq_len + 1), in bfloat16."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.logits(window[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), window[:, 1:].flatten())


def fit(model: CausalLM, train: Tensor, steps: int, generator: torch.Generator) -> None:
    """Trains with Muon for the layers' matrices and AdamW for the rest, warm-up and cosine to a
    tenth."""
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and ".layers." in n]
    others = [p for n, p in model.named_parameters() if p.dim() == 1 or ".layers." not in n]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=4e-3, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=4e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]
    warm_up = 100

    def rate(step: int) -> float:
        cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
        return min((step + 1) / warm_up, 0.05 + 0.95 * cosine)

    schedules = [torch.optim.lr_scheduler.LambdaLR(o, rate) for o in optimizers]
    loss_of = torch.compile(lambda window: training_loss(model, window), dynamic=False)
    start, average = time.monotonic(), 0.0
    for step in range(steps):
        long = step >= steps * 9 // 10
        seq_len, batch = (LONG_SEQ_LEN, LONG_BATCH) if long else (SEQ_LEN, BATCH)
        at = torch.randint(len(train) - seq_len - 1, (batch,), generator=generator)
        window = torch.stack([train[i : i + seq_len + 1] for i in at.tolist()])
        loss = loss_of(window)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
        average = 0.98 * average + 0.02 * loss.item()
        if step % 50 == 49:
            shown = average / (1 - 0.98 ** (step + 1))
            minutes = (time.monotonic() - start) / 60
            click.echo(f"step {step + 1}/{steps}: loss {shown:.3f}, {minutes:.1f} min", err=True)


def calibration_text(texts: list[str]) -> str:
    """Returns pieces of all training texts: the default calibration text of quantization."""
    piece = 4000
    chosen = [text[:piece] for text in texts if len(text) >= piece]
    step = max(1, len(chosen) * piece // CALIBRATION_BYTES)
    return "\n\n".join(chosen[::step])


@click.command(help=__doc__, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--docs", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True
)
@click.option("--steps", default=4000, show_default=True, help="Updates of 8192 tokens each.")
@click.option("--out", type=click.Path(path_type=Path), default=Path(__file__).parent)
@click.option("--seed", default=0, show_default=True)
def main(docs: Path, steps: int, out: Path, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    corpus = read_corpus(docs)
    tokenizer = train_tokenizer(corpus.train)
    train, held_out = encode_all(tokenizer, corpus.train), encode_all(tokenizer, corpus.held_out)
    click.echo(f"{len(train):,} tokens to train on, {len(held_out):,} held out", err=True)
    model = CausalLM(decoder_spec(CONFIG))
    initialise(model, generator)
    fit(model, train, steps, generator)

    weights = {n: p.detach().bfloat16() for n, p in model.named_parameters()}
    weights = {n: p.contiguous() for n, p in weights.items() if n != "lm_head.weight"}
    model.load_state_dict(weights, strict=False)
    loss = held_out_loss(model.logits, held_out)
    letters = sum(len(text.encode()) for text in corpus.held_out)
    card = {
        "parameters": sum(p.numel() for p in weights.values()),
        "trained_on": f"the sources and documentation of Python {sys.version.split()[0]}",
        "train_tokens": steps * BATCH * SEQ_LEN,
        "steps": steps,
        "seed": seed,
        "held_out_loss": round(loss, 4),
        "held_out_perplexity": round(math.exp(loss), 2),
        "held_out_bits_per_byte": round(loss * len(held_out) / letters / math.log(2), 3),
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (out / "model_card.json").write_text(json.dumps(card, indent=2) + "\n")
    (out / "calibration.txt").write_text(calibration_text(corpus.train), encoding="utf-8")
    tokenizer.save(str(out / "tokenizer.json"))
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    click.echo(json.dumps(card, indent=2))


if __name__ == "__main__":
    main()
