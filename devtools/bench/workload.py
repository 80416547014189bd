"""What is measured: prefills, decoding at depth, a small batch, and several answers at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

PREFILLS = (128, 512, 2048)
DEPTHS = (0, 1024, 4096)
BATCH = 4
DECODED = 32  # tokens of one sample
BATCHES = 8  # calls of one sample
SEQUENCE_PROMPT = 16  # tokens that each of several sequences has read before
FIRST_PROMPT = 128  # of which the time to the first token is taken
FULL_CONTEXT = 2048  # in which the peak of memory is taken


@dataclass(frozen=True)
class Workload:
    """One kind of work and its size.

    Attributes:
        kind: "prefill" of `tokens` from position 0; "decode" of `tokens` one by one from position
            `depth`; "batch" of `tokens` in one call at position `depth`, `calls` times;
            "sequences": `tokens` of each of `sequences` answers at once, behind prompts of `depth`.
        tokens: see kind.
        depth: positions that the cache holds before.
        calls: how often one sample repeats it; above 1 for batches only.
        sequences: see kind.
    """

    kind: Literal["prefill", "decode", "batch", "sequences"]
    tokens: int
    depth: int = 0
    calls: int = 1
    sequences: int = 1

    @property
    def name(self) -> str:
        if self.kind == "prefill":
            return f"prefill {self.tokens}"
        if self.kind == "decode":
            return f"decode at {self.depth}"
        if self.kind == "sequences":
            return "1 conversation" if self.sequences == 1 else f"{self.sequences} conversations"
        return f"batch of {self.tokens}"

    @property
    def end(self) -> int:
        """Positions that the cache must hold."""
        return self.depth + self.tokens

    @property
    def sample_tokens(self) -> int:
        """Tokens that one sample takes the time of."""
        return self.tokens * self.calls * self.sequences


@dataclass(frozen=True)
class Plan:
    """What one run measures.

    Attributes:
        workloads: in order.
        threads: the thread counts, in order.
        repeats: samples of each.
        notes: what was left out, and why; a sentence each.
        starts: whether starts and memory are measured too.
    """

    workloads: tuple[Workload, ...]
    threads: tuple[int, ...]
    repeats: int
    notes: tuple[str, ...] = ()
    starts: bool = True


def make_plan(max_context_len: int, threads: Sequence[int], repeats: int, quick: bool) -> Plan:
    """The workloads that fit into a model's context, and a note about each that does not.

    Args:
        quick: one short prefill and decoding at depth 0 alone.
    """
    decoded = min(DECODED, max(1, max_context_len // 4))
    if quick:
        prefills = (min(PREFILLS[0], max_context_len // 2),)
        plan = [Workload("prefill", prefills[0]), Workload("decode", decoded)]
    else:
        plan = [Workload("prefill", tokens) for tokens in PREFILLS]
        plan += [Workload("decode", decoded, depth) for depth in DEPTHS]
    plan.append(Workload("batch", min(BATCH, max_context_len), calls=BATCHES))
    fitting = tuple(workload for workload in plan if workload.end <= max_context_len)
    notes = tuple(
        f"{workload.name} is left out: it takes a context of {workload.end} and the model's holds "
        f"{max_context_len}; export with --max-context-len {workload.end}, if the model can."
        for workload in plan
        if workload.end > max_context_len
    )
    return Plan(fitting, tuple(threads), repeats, notes)


def make_sequences_plan(
    max_context_len: int, threads: Sequence[int], repeats: int, sequences: Sequence[int]
) -> Plan:
    """So many answers at once, and nothing else."""
    prompt = min(SEQUENCE_PROMPT, max(1, max_context_len // 4))
    tokens = max(1, min(DECODED, max_context_len - prompt - 1))
    workloads = tuple(Workload("sequences", tokens, prompt, sequences=count) for count in sequences)
    return Plan(workloads, tuple(threads), repeats, starts=False)
