"""Modules of random operators, for whatever their shapes allow: the same for the same seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from support.random_steps import KINDS, Function
from torch import Tensor, nn
from torch.export import Dim

MOST = 4  # samples of a batch
_NUMBERS = 6000  # of a sample


@dataclass
class Step:
    """
    Attributes:
        name: for a message.
        sources: places of values that it reads.
        run: what it does; a module of its weights, or a function.
    """

    name: str
    sources: tuple[int, ...]
    run: Function


class RandomModule(nn.Module):
    """Runs its steps; returns some of the values, alone, in a tuple or in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.parts = nn.ModuleList()
        self.returned: list[int] = []
        self.form = "tuple"

    def add(self, step: Step) -> None:
        self.steps.append(step)
        if isinstance(step.run, nn.Module):
            self.parts.append(step.run)

    def values(self, given: Sequence[Tensor]) -> list[Tensor]:
        values = list(given)
        for step in self.steps:
            values.append(step.run(*(values[place] for place in step.sources)))
        return values

    def forward(self, *given: Tensor) -> Any:
        values = self.values(given)
        outputs = [values[place] for place in self.returned]
        if self.form == "dict":
            return {f"out_{place}": value for place, value in enumerate(outputs)}
        return outputs[0] if self.form == "one" else tuple(outputs)

    def described(self) -> str:
        lines = [f"{step.name} of {step.sources}" for step in self.steps]
        return "\n".join([*lines, f"returns {self.form} of {self.returned}"])


@dataclass
class Case:
    """
    Attributes:
        inputs: an example.
        fixed: samples of every call; 0: any number up to MOST.
    """

    module: RandomModule
    inputs: tuple[Tensor, ...]
    fixed: int
    seed: int
    types: list[torch.dtype] = field(default_factory=list)

    def made(self) -> Any:
        """What a user's function returns."""
        if self.fixed:
            return self.module, self.inputs
        batch = Dim("batch", min=1, max=MOST)
        return self.module, self.inputs, (tuple({0: batch} for _ in self.inputs),)

    def others(self, batch: int, layout: str) -> tuple[Tensor, ...]:
        """Other inputs of a batch."""
        generator = torch.Generator().manual_seed(self.seed + batch)
        return tuple(_input(x.shape[1:], x.dtype, batch, generator, layout) for x in self.inputs)


def _input(
    shape: Sequence[int],
    type: torch.dtype,
    batch: int,
    generator: torch.Generator,
    layout: str = "",
) -> Tensor:
    if not type.is_floating_point:
        return torch.randint(0, 7, (batch, *shape), generator=generator, dtype=type)
    x = torch.randn(batch, *shape, generator=generator).to(type)
    if layout == "last" and x.dim() == 4:
        return x.to(memory_format=torch.channels_last)
    if layout == "strided":
        return x.repeat_interleave(2, -1)[..., ::2]
    return x


def random_module(seed: int) -> Case:
    chance = random.Random(seed)
    torch.manual_seed(seed)
    fixed = chance.choice((0, 0, 0, 1, 3))
    batch = fixed or 2
    shapes = [_shape(chance) for _ in range(chance.choice((1, 1, 1, 2, 2, 3)))]
    types = [_type(chance) for _ in shapes]
    generator = torch.Generator().manual_seed(seed)
    inputs = tuple(
        _input(shape, type, batch, generator) for shape, type in zip(shapes, types, strict=True)
    )
    module = RandomModule().eval()
    with torch.no_grad():
        values: list[Any] = list(inputs)
        wanted = chance.randint(1, 9)
        for _ in range(100):
            if len(module.steps) == wanted:
                break
            _try(chance, module, values, batch)
    _choose_outputs(chance, module, len(inputs), len(values))
    for buffer in module.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    module.requires_grad_(False).eval()
    return Case(module, inputs, fixed, seed)


def _shape(chance: random.Random) -> tuple[int, ...]:
    dims = chance.choice((1, 2, 2, 2, 3, 3, 3, 4))
    if dims == 3:
        return chance.choice((1, 3, 4, 8)), chance.randint(1, 11), chance.randint(1, 11)
    return tuple(chance.choice((1, 2, 3, 4, 5, 6, 7, 8, 12, 16)) for _ in range(dims))


def _type(chance: random.Random) -> torch.dtype:
    others = torch.int64, torch.int32, torch.float16, torch.bfloat16
    return torch.float32 if chance.random() < 0.85 else chance.choice(others)


def _choose_outputs(chance: random.Random, module: RandomModule, given: int, count: int) -> None:
    read = {place for step in module.steps for place in step.sources}
    ends = [place for place in range(given, count) if place not in read] or [count - 1]
    more = [place for place in range(count) if place not in ends]
    if more and chance.random() < 0.4:
        ends += chance.sample(more, min(len(more), chance.randint(1, 2)))
    module.returned = ends
    module.form = "one" if len(ends) == 1 else chance.choice(("tuple", "dict"))


def _try(chance: random.Random, module: RandomModule, values: list[Any], batch: int) -> None:
    recent = len(values) - 1 if chance.random() < 0.7 else chance.randrange(len(values))
    x = values[recent]
    name, make = chance.choice(KINDS)
    made = make(chance, x)
    if made is None:
        return
    sources = (recent,)
    if isinstance(made, tuple):  # of two values
        name, made = made
        alike = [place for place, value in enumerate(values) if _fits(name, x, value)]
        if not alike:
            return
        sources = (recent, chance.choice(alike))
    step = Step(name, sources, made)
    if isinstance(made, nn.Module):
        made.eval()
        step.name = f"{name} {made}".replace("\n", " ")
    try:
        result = made(*(values[place] for place in sources))
    except (RuntimeError, IndexError, ValueError, TypeError):
        return
    if not isinstance(result, Tensor) or not 1 <= result.dim() <= 6:
        return
    sizes = result.shape[1:] if result.dim() > 1 else result.shape
    if result.dim() and prod(sizes) > _NUMBERS or not result.numel():
        return
    if result.is_floating_point() and not bool((result.abs() < 1e4).all()):
        return
    step.name += f" -> {tuple(result.shape)}"
    module.add(step)
    values.append(result)


def _fits(name: str, x: Tensor, other: Tensor) -> bool:
    if x.dtype != other.dtype and name != "arithmetic":
        return False
    try:
        return torch.broadcast_shapes(x.shape, other.shape) is not None
    except RuntimeError:
        return name.startswith("cat") and x.dim() == other.dim()
