"""What this package asks of a model and of the place its weights come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from quant.modules import QuantizedWeight


@dataclass(frozen=True)
class Part:
    """Linears of a layer that read one input and are stored alike; or those of all experts of a
    mixture, each of which reads an input of its own.

    Attributes:
        name: in the layer, such as "self_attn.qkv_proj" or "mlp.down_proj".
        linears: their paths in the layer, such as "self_attn.q_proj", "self_attn.k_proj".
        experts: how many these are of, one expert's after the other's; 1: of a block without.
        joins: whether a delegate that joins linears makes one matrix of them: nothing else reads
            what they make.
    """

    name: str
    linears: tuple[str, ...]
    experts: int = 1
    joins: bool = False

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The linears that read one input, for each of the inputs."""
        size = len(self.linears) // self.experts
        return tuple(
            self.linears[first : first + size] for first in range(0, len(self.linears), size)
        )


@dataclass(frozen=True)
class Block:
    """sum_norm((hidden + after(module(norm(hidden), context))) * times): one block of a layer, with
    its linears.

    Attributes:
        module: path in the layer, such as "self_attn".
        norm: path of the norm that feeds it; None: it reads the stream itself.
        readers: what reads the block's input.
        last: the one linear that ends the block.
        after: path of the norm after it, before the sum; None: there is none.
        feeds_last: path of the linear whose outputs are, one by one, scaled inputs of `last`
            (up_proj; v_proj where no heads share values); None: there is none.
        heads: path of the linear that makes the values of the heads, and the size of a head, where
            the values of each head may be rotated; None: they may not.
        router: path of the linear that chooses the experts of each row from the block's input, and
            stays in floats; the module is then a `Mixture`. None: there are no experts.
        times: path of a number by which the hidden states behind the block are multiplied; None:
            they are not.
        sum_norm: path of the norm of the sum, which is then the hidden states behind the block
            (BERT); None: there is none.
        leaves: how many numbers of a token it leaves in the context for later layers.
        branch: "opens": the next block, which "closes", reads what this one reads, and adds to what
            this one returns. None: it reads what the block before returns.
    """

    module: str
    norm: str | None
    readers: tuple[Part, ...]
    last: Part
    after: str | None
    feeds_last: str | None
    heads: tuple[str, int] | None
    router: str | None = None
    times: str | None = None
    sum_norm: str | None = None
    leaves: int = 0
    branch: Literal["opens", "closes"] | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of it that is quantized, in the order of computation."""
        return (*self.readers, self.last)

    @property
    def end(self) -> str:
        """Path of the linear that ends the block, of one without experts."""
        (linear,) = self.last.linears
        return linear

    @property
    def experts(self) -> "tuple[Block, ...]":
        """A block for each expert of a mixture, of the rows that the expert is given."""
        every = zip(*(part.groups for part in self.parts), strict=True)
        return tuple(
            Block(
                module=last[0].rpartition(".")[0],
                norm=self.norm,
                readers=tuple(
                    Part(part.name, group) for part, group in zip(self.readers, groups, strict=True)
                ),
                last=Part(self.last.name, last),
                after=None,
                feeds_last=None,
                heads=None,
            )
            for *groups, last in every
        )


class Mixture(Protocol):
    """A module that gives each row of its input to a few of its experts."""

    def chosen(self, x: Tensor) -> Tensor:
        """Rows (..., hidden_size) to the numbers of their experts: int64 (..., count)."""


class DecoderLayer(Protocol):
    """A module that computes x = x + after(module(norm(x), context)), block by block."""

    def blocks(self) -> Sequence[Block]:
        """Its blocks, in the order of computation."""

    def forward(self, x: Tensor, context: Any) -> Tensor:
        """Hidden states (batch, seq_len, hidden_size) to hidden states."""


class CausalLM(Protocol):
    """A decoder with a head; `model` holds `embed_tokens`, `layers` (DecoderLayer) and `norm`."""

    @property
    def config(self) -> object:
        """Its repr contains everything that determines what the layers compute, except weights."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def lm_head(self) -> nn.Linear: ...

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids (batch, seq_len) to hidden states (batch, seq_len, hidden_size)."""

    def scale_embedding(self, rows: Tensor) -> Tensor:
        """Rows of the embedding (..., hidden_size) to hidden states, as `embed` makes those; linear
        in each row."""

    def context(self, seq_len: int) -> Any:
        """What the layers take besides the hidden states of positions 0 .. seq_len - 1: a pytree
        of tensors."""

    @property
    def reads_text(self) -> bool:
        """Whether the layers also take what depends on the text: `text_context`."""

    def text_context(
        self, context: Any, tokens: Tensor, hidden: Tensor, weights: "WeightSource | None" = None
    ) -> Any:
        """`context`, with what the layers take of some sequences besides their hidden states; and
        with what earlier layers leave there for later ones, as those sequences go through them.

        Args:
            tokens: int64 (batch, seq_len), on the CPU.
            hidden: in front of the first layer, (batch, seq_len, hidden_size), on any device.
            weights: where what is outside the layers is read, as floats; None: the model's own.
        """

    def finish_logits(self, logits: Tensor) -> Tensor:
        """What comes after `lm_head`, for each logit separately, such as a soft cap."""


class WeightSource(Protocol):
    """Stored tensors by their Hugging Face names."""

    def tensor(self, name: str) -> Tensor:
        """One tensor as it is stored, of any float type."""

    def load_into(self, module: nn.Module, prefix: str) -> None:
        """Replaces each parameter of `module` by a float32 copy of `prefix` + its name."""

    def release(self) -> None:
        """Releases the memory that reading has made resident."""


@runtime_checkable
class IntegerSource(WeightSource, Protocol):
    """Stored tensors of which some are integers and scales."""

    def integers(self, name: str) -> QuantizedWeight | None:
        """The integers of a matrix as they are stored; None where it is to be rounded."""
