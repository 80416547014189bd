"""Models that give logits after every token: a checkpoint in float32, or a finished `.pte`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from delegates import get_delegate
from exporter.catalogue.find import open_model
from exporter.checkpoint import refuse_adapter_beside
from exporter.file.pte import read_report
from exporter.file.report import ORIGINAL_CONTEXT
from exporter.plan.plan import empty_model
from exporter.tokenizer import compile_tokenizer, load_tokenizer
from quant.commands.checks import RunAs, check_scored, is_program
from quant.errors import QuantError
from quant.layers.walk import load_finite, through_layers
from quant.measure.windows import Encode
from runtime import Runner
from runtime.build import BUILD_DIR, build

Advance = Callable[[int], None]  # so many more tokens have gone through a model
PIECE = 128  # tokens whose logits are in memory together
_OURS = ("cpu", "xnnpack")  # delegates whose programs our runner runs


@dataclass(frozen=True)
class Scored:
    """A model to measure.

    Attributes:
        name: for people.
        runs_with: what computes it, for people.
        logits: int64 (seq_len,) and the first position that is wanted, to float32 pieces (PIECE or
            fewer, vocab_size) that follow each other, one row for each token from there on; each
            time as from an empty cache.
        longest: most tokens that `logits` takes.
        bos_id: what begins a text, or None.
        encode: its own tokenizer, or None where only a runtime elsewhere reads it.
        vocab_size: of the logits.
        generate: a prompt, behind BOS, and most new tokens, to the pieces of the likeliest answer;
            None where there is no `encode`.
    """

    name: str
    runs_with: str
    logits: Callable[[Tensor, int], Iterator[Tensor]]
    longest: int
    bos_id: int | None
    encode: Encode | None
    vocab_size: int
    generate: Callable[[str, int], Iterator[str]] | None


def context_of(model: str) -> int | None:
    """The positions that the rotary tables of a `.pte` were made for; None: the model is no `.pte`,
    or each text's length chooses its tables there, too."""
    if not is_program(model):
        return None
    facts = read_report(Path(model))["model"]
    length: int = facts["max_context_len"]
    return None if ORIGINAL_CONTEXT in facts else length


def open_scored(model: str, run_as: RunAs, advance: Advance, context: int | None = None) -> Scored:
    """Opens a `.pte`, a preset, a checkpoint directory, a GGUF file or a hub id.

    Args:
        run_as: for a `.pte`; a type of cache and an adapter for `--delegate cpu` alone.
        advance: is told of tokens as they go through the model.
        context: what a checkpoint's rotary tables are made for, where they depend on the length,
            so that it is the model that a `.pte` was made of; None: each text's own length.

    Raises:
        ExportError, TokenizerError, QuantError, RunnerError: there is no such model, or none that
            runs here in such a way.
    """
    check_scored(model, run_as)
    if is_program(model):
        return _open_pte(Path(model), run_as, advance)
    return _open_checkpoint(model, advance, context)


def _open_checkpoint(model: str, advance: Advance, context: int | None) -> Scored:
    checkpoint = open_model(model)
    refuse_adapter_beside(checkpoint)
    config = checkpoint.config if context is None else checkpoint.config.for_context(context)
    decoder = empty_model(config).eval()
    checkpoint.check(decoder)
    load_finite(checkpoint, decoder, "")
    compiled = compile_tokenizer(checkpoint.directory)

    @torch.no_grad()
    def logits(tokens: Tensor, first: int) -> Iterator[Tensor]:
        hidden = decoder.embed(tokens[None])
        context = decoder.text_context(decoder.context(len(tokens)), tokens[None], hidden)
        hidden = through_layers(decoder, hidden, context)
        advance(len(tokens))
        for part in hidden[0, first:].split(PIECE):
            yield decoder.head(part)

    tokenizer = load_tokenizer(checkpoint.directory)
    bos_id = checkpoint.config.bos_token_id if compiled.bos_id is None else compiled.bos_id
    ends = {bos_id, *compiled.eos_ids, *checkpoint.config.eos_token_ids}
    longest = checkpoint.config.context_limit

    @torch.no_grad()
    def generate(prompt: str, max_new_tokens: int) -> Iterator[str]:
        """Over the model's own cache, a token a call; all again where the rotary table changes."""
        ids = ([] if bos_id is None else [bos_id]) + tokenizer.encode(prompt)
        most = min(longest, len(ids) + max_new_tokens)
        decoder.setup_cache(most)
        step, at, before = torch.tensor([ids]), 0, tokenizer.decode(ids)
        while len(ids) < most:
            token = int(decoder(step, torch.tensor([at])).argmax())
            if token in ends:
                break
            ids.append(token)
            anew = len(ids) - 1 == decoder.config.original_context
            at = 0 if anew else len(ids) - 1
            step = torch.tensor([ids[at:]])
            text = tokenizer.decode(ids)
            if not text.endswith("\ufffd"):  # half a character
                yield text[len(before) :]
                before = text

    return Scored(
        checkpoint.name,
        "PyTorch, float32",
        logits,
        longest,
        bos_id,
        tokenizer.encode,
        checkpoint.config.vocab_size,
        generate,
    )


def _open_pte(path: Path, run_as: RunAs, advance: Advance) -> Scored:
    report = read_report(path)
    name, facts = report["delegation"]["delegate"], report["model"]
    length, bos_id, vocab_size = (
        facts["max_context_len"],
        facts["bos_id"],
        facts["vocab_size"],
    )
    if name not in _OURS:
        logits = _logits_of_other(path, name, advance)
        return Scored(str(path), name, logits, length, bos_id, None, vocab_size, None)
    if not (BUILD_DIR / "libthimble.so").is_file():
        build()
    runner = Runner(path, kv_cache=run_as.kv_cache, adapter=run_as.adapter)

    def runner_logits(tokens: Tensor, first: int) -> Iterator[Tensor]:
        """A piece after the other, which the runner's cache ties together."""
        ids = tokens.tolist()
        for start in range(first, len(ids), PIECE):
            end = min(start + PIECE, len(ids))
            yield torch.from_numpy(runner.logits(ids, start, end))
            advance(end - (start if start > first else 0))

    runs_with = str(runner.stats["runs_with"]) or name
    return Scored(
        str(path),
        runs_with,
        runner_logits,
        length,
        bos_id,
        runner.encode,
        vocab_size,
        runner.generate,
    )


def _logits_of_other(
    path: Path, name: str, advance: Advance
) -> Callable[[Tensor, int], Iterator[Tensor]]:
    """Runs the program with what the delegate itself offers on this machine."""
    step = get_delegate(name).load(path)
    if step is None:
        raise QuantError(
            f"{path} runs on {name}, which this machine cannot run; evaluate it where it runs."
        )

    def logits(tokens: Tensor, first: int) -> Iterator[Tensor]:
        """A call gives the logits after its last token: so one call a token."""
        rows: list[Tensor] = []
        for at, token in enumerate(tokens):
            row = step(token.view(1, 1), torch.tensor([at])).clone()
            advance(1)
            if at >= first:
                rows.append(row)
            if rows and (len(rows) == PIECE or at + 1 == len(tokens)):
                yield torch.cat(rows)
                rows = []

    return logits
