"""Bits spread by what they buy: the knapsack, the costs it goes by, the files that come of it."""

import copy
import itertools
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.decoder_specs import varied
from support.quantization import CONFIG, empty_model, random_weights, tokens

from delegates import get_delegate
from exporter.checkpoint import Checkpoint, open_checkpoint
from exporter.models.decoder import CausalLM
from exporter.plan.widths import storage_of
from exporter.tokenizer import load_tokenizer
from quant.budget.allocate_bits import (
    Budget,
    PartSizes,
    allocate_bits,
    choose,
    numbers_of,
    parts_of,
    types_of,
)
from quant.budget.sensitivity import measure_costs
from quant.cache.store import Cache
from quant.errors import QuantError
from quant.layers.blocks import part_names, parts_of_layer
from quant.layers.embedding_and_head import quantize_embedding_and_head, set_embedding_and_head
from quant.layers.walk import walk
from quant.measure.quality import compare_logits
from quant.measure.size import STOCK, Storage
from quant.measure.windows import calibration_windows, evaluation_windows
from quant.method import Method
from quant.modules import QuantizedLinear, drop_activation_rounding
from quant.quantize import quantize
from quant.report import QuantReport
from quant.scheme import EMBEDDING_PART, HEAD_PART, METHODS, Scheme
from quant.weight_type import INT8, WeightType, int4

CPU = storage_of(get_delegate("cpu").LIMITS)


def test_the_best_choice_is_found() -> None:
    """Beside all choices there are, sizes small enough for steps of one byte."""
    rng = random.Random(0)
    for _ in range(60):
        kinds = [rng.randint(1, 4) for _ in range(6)]  # parts need not have as many types
        unit = rng.choice((1, 4096))
        parts = [
            PartSizes(str(index), tuple(unit * rng.randint(1, 60) for _ in range(kind)))
            for index, kind in enumerate(kinds)
        ]
        costs = [[rng.uniform(0, 1) for _ in range(kind)] for kind in kinds]
        least = sum(min(part.sizes) for part in parts)
        room = unit * rng.randint(0, 150) + rng.randint(0, unit - 1)

        def size(choices: Sequence[int], parts: list[PartSizes] = parts) -> int:
            return sum(part.sizes[choice] for part, choice in zip(parts, choices, strict=True))

        def cost(choices: Sequence[int], costs: list[list[float]] = costs) -> float:
            return sum(each[choice] for each, choice in zip(costs, choices, strict=True))

        fitting = [c for c in itertools.product(*map(range, kinds)) if size(c) <= least + room]
        chosen = choose(parts, costs, room)
        assert size(chosen) <= least + room
        assert cost(chosen) == pytest.approx(min(map(cost, fitting)))


def test_bytes_without_a_common_divisor_are_rounded_up() -> None:
    """A part may waste less than one step: what is found is no worse than the best of a room that
    is smaller by a step for each part."""
    rng = random.Random(1)
    extra = [rng.randint(10**9, 2 * 10**9) for _ in range(12)]
    parts = [PartSizes(str(index), (10**9, 10**9 + size)) for index, size in enumerate(extra)]
    gains = [rng.uniform(0.1, 1) for _ in parts]
    room = 8 * 10**9
    smaller = room - len(parts) * (room // (1 << 18) + 1)
    best = max(
        sum(gains[part] for part in some)
        for count in range(len(parts) + 1)
        for some in itertools.combinations(range(len(parts)), count)
        if sum(extra[part] for part in some) <= smaller
    )
    chosen = choose(parts, [(gain, 0.0) for gain in gains], room)
    assert sum(size for size, choice in zip(extra, chosen, strict=True) if choice) <= room
    found = sum(gain for gain, choice in zip(gains, chosen, strict=True) if choice)
    assert found >= best - 1e-9


def test_widths_are_shown_by_part() -> None:
    types = {f"model.layers.{i}.mlp.down_proj": INT8 for i in (0, 2, 3, 4)} | {HEAD_PART: INT8}
    scheme = Scheme("gptq4", head_bits=4).with_types(types)
    assert scheme.type_of("model.layers.3.mlp.down_proj") == INT8
    assert scheme.type_of("model.layers.3.mlp.gate_up_proj") == int4(32)
    assert scheme.type_of(EMBEDDING_PART) == int4(32)
    parts = ["self_attn.qkv_proj", "mlp.gate_up_proj", "mlp.down_proj"]
    assert scheme.widths([parts, parts[:1], *[parts] * 3]) == {
        "self_attn.qkv_proj": "4 bits",
        "mlp.gate_up_proj": "4 bits",
        "mlp.down_proj": "8 bits",
        EMBEDDING_PART: "4 bits",
        HEAD_PART: "8 bits",
    }
    assert scheme.widths([parts] * 6) == {
        "self_attn.qkv_proj": "4 bits",
        "mlp.gate_up_proj": "4 bits",
        "mlp.down_proj": "4 bits, 8 in layers 0, 2-4",
        EMBEDDING_PART: "4 bits",
        HEAD_PART: "8 bits",
    }


def test_ends_of_two_widths_have_none_in_common() -> None:
    config = varied(CONFIG, tie_word_embeddings=False)
    scheme = Scheme("rtn4", head_bits=4)
    for types, bits in (({}, 4), ({HEAD_PART: INT8}, None)):
        report = quantize(empty_model(config), scheme.with_types(types), random_weights(config))
        assert report.head_bits == bits


class Stories:
    """The 260K model and its texts."""

    def __init__(self, data: Path) -> None:
        self.checkpoint: Checkpoint = open_checkpoint(str(data / "stories260K"))
        text = (data / "text" / "tinystories_calibration.txt").read_text(encoding="utf-8")
        encode = load_tokenizer(data / "stories260K").encode
        self.calibration = calibration_windows(text, encode, 2048, 256, 1)
        self.evaluation = evaluation_windows(text, encode, 2048, 256, 1)

    def empty(self) -> CausalLM:
        with torch.device("meta"):
            return CausalLM(self.checkpoint.config)

    def spread(self, budget: Budget, scheme: Scheme, cache: Cache | None = None) -> Scheme:
        texts = (self.checkpoint, self.calibration)
        return allocate_bits(self.empty(), scheme, budget, *texts, lambda: None, cache=cache)

    def quantized(self, scheme: Scheme, storage: Storage) -> tuple[CausalLM, QuantReport]:
        model = self.empty()
        texts = (self.calibration, self.evaluation)
        report = quantize(model, scheme, self.checkpoint, *texts, storage=storage)
        return model, report


@pytest.fixture(scope="module")
def stories(shared_data: Path) -> Stories:
    return Stories(shared_data)


@pytest.mark.check
def test_the_cost_of_ends_of_4_bits_is_estimated(stories: Stories) -> None:
    """The second order is the model: what is left out are third orders, and one draw of labels."""
    scheme = Scheme("rtn4", head_bits=4, method=replace(METHODS["rtn4"], scales="searched"))
    costs = measure_costs(
        stories.empty(),
        scheme.choice,
        types_of(scheme, STOCK),
        stories.checkpoint,
        stories.calibration,
    )
    assert set(costs) == {part.name for part in parts_of(stories.empty(), scheme, STOCK)}
    assert all(at4 > 30 * at8 > 0 for at4, at8 in costs.values())

    reference, _ = stories.quantized(Scheme("none"), STOCK)
    model, _ = stories.quantized(Scheme("none"), STOCK)
    set_embedding_and_head(model, *quantize_embedding_and_head(model, scheme, stories.checkpoint))
    drop_activation_rounding(model)
    window = stories.calibration
    with torch.no_grad():
        quality = compare_logits(
            reference.logits(window)[:, :-1], model.logits(window)[:, :-1], window[:, 1:]
        )
    assert costs[EMBEDDING_PART][0] == pytest.approx(quality.kl, rel=0.25)


@pytest.mark.check
@pytest.mark.parametrize("storage", [STOCK, CPU], ids=["xnnpack", "cpu"])
def test_a_budget_is_kept_and_used(stories: Stories, storage: Storage, tmp_path: Path) -> None:
    numbers = numbers_of(stories.empty())
    parts = parts_of(stories.empty(), Scheme("gptq4"), storage)
    least = 8 * sum(part.sizes[0] for part in parts) / numbers
    part_of = {
        f"{stop.name}.{linear}": f"{stop.name}.{part.name}"
        for stop in walk(stories.empty())
        for part in parts_of_layer(stop.layer)
        for linear in part.linears
    }
    kl = []
    below = [least - 0.8] if storage is CPU else []  # where parts have 2 and 3 bits too
    for bits in (*below, least + 0.4, least + 1.5):
        budget = Budget(bits=bits, storage=storage)
        scheme = stories.spread(budget, Scheme("gptq4"), Cache(tmp_path))
        assert any(type.bits < 4 for _, type in scheme.types) == (bits < least)
        model, report = stories.quantized(scheme, storage)
        assert bits - 0.35 < report.size.bits_per_weight <= bits
        assert (
            report.widths == scheme.widths(part_names(stories.empty()))
            and report.method is not None
        )
        for name, module in model.named_modules():
            if isinstance(module, QuantizedLinear) and name != "lm_head":
                assert module.weight_type == scheme.type_of(part_of[name]), name
        assert report.quality is not None
        kl.append(report.quality.kl)
    assert all(more < 0.8 * fewer for fewer, more in itertools.pairwise(kl))


@pytest.mark.check
def test_bits_of_the_same_size_are_spread_for_less_loss(stories: Stories) -> None:
    kl, sizes = [], []
    even = Scheme("gptq4", head_bits=8)
    for scheme in (even, stories.spread(Budget(even=True, storage=CPU), even)):
        report = stories.quantized(scheme, CPU)[1]
        assert report.quality is not None
        kl.append(report.quality.kl)
        sizes.append(report.size.bits_per_weight)
    assert 0.97 * sizes[0] < sizes[1] <= sizes[0]
    assert kl[1] < 0.7 * kl[0]


@pytest.mark.parametrize("tied", [True, False])
def test_rows_and_columns_that_are_padded_count(tied: bool) -> None:
    """Of 3 heads of 24 rows, 72 and 200 columns: no matrix fills its blocks and groups."""
    attention = {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 24}
    sizes = {"hidden_size": 72, "intermediate_size": 200, "tie_word_embeddings": tied}
    config = varied(CONFIG, **attention, **sizes)
    weights, text = random_weights(config), tokens(4)

    def spread_within(budget: Budget) -> float:
        scheme = allocate_bits(
            empty_model(config), Scheme("rtn4"), budget, weights, text, lambda: None
        )
        return bits_of(scheme)

    def bits_of(scheme: Scheme) -> float:
        report = quantize(empty_model(config), scheme, weights, storage=CPU)
        return report.size.bits_per_weight

    least = bits_of(Scheme("rtn4", head_bits=4))
    for bits in (least + 0.001, least + 0.3, least + 0.6):
        assert bits - 0.3 < spread_within(Budget(bits, storage=CPU)) <= bits
    assert spread_within(Budget(even=True, storage=CPU)) <= bits_of(Scheme("rtn4"))
    assert spread_within(Budget(least - 0.01, storage=CPU)) <= least - 0.01
    parts = [part.name for part in parts_of(empty_model(config), Scheme("rtn4"), CPU)]
    twos = {part: WeightType(2, 32, 2) for part in (*parts, HEAD_PART)}
    least = bits_of(Scheme("rtn4").with_types(twos))
    with pytest.raises(QuantError, match=f"the model takes at least {least:.3f} bits a weight"):
        spread_within(Budget(least - 0.01, storage=CPU))


def test_corrections_are_shrunk_below_four_bits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the user has set a method."""

    def costs(model: CausalLM, method: Method, types: Sequence[WeightType], *_: object) -> object:
        return defaultdict(lambda: [1.0] * len(types))

    monkeypatch.setattr("quant.budget.allocate_bits.find_costs", costs)
    weights, text, gptq = random_weights(CONFIG), tokens(4), Scheme("gptq4")
    even = quantize(empty_model(CONFIG), Scheme("rtn4", head_bits=4), weights, storage=CPU)
    least = even.size.bits_per_weight

    def drift_at(bits: float, scheme: Scheme) -> str:
        budget = Budget(bits, storage=CPU)
        model = empty_model(CONFIG)
        return allocate_bits(model, scheme, budget, weights, text, lambda: None).choice.drift

    assert drift_at(least - 0.1, gptq) == "shrunk"
    assert drift_at(least + 0.1, gptq) == gptq.choice.drift == "residual"
    own = replace(gptq, method=Method(drift="inputs"))
    assert drift_at(least - 0.1, own) == "inputs"
    assert drift_at(least - 0.1, Scheme("rtn4")) == "none"


@pytest.mark.check
def test_costs_are_measured_once(
    stories: Stories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stories = copy.copy(stories)
    stories.calibration = stories.calibration[:4].clone()
    cache = Cache(tmp_path, 1 << 20)

    def found(bits: float, head_bits: int = 8) -> Scheme:
        scheme = Scheme("gptq4", head_bits=head_bits)
        return stories.spread(Budget(bits=bits, storage=CPU), scheme, cache)

    assert found(6.5) == stories.spread(Budget(bits=6.5, storage=CPU), Scheme("gptq4"))
    monkeypatch.setattr("quant.budget.known_costs.measure_costs", None)  # is not called again
    narrow = found(6.0)
    assert narrow.types and narrow != found(6.5)
    stories.calibration[0, 5] += 1
    with pytest.raises(TypeError):
        found(6.0)


@pytest.mark.check
def test_it_beats_a_spread_that_looks_at_nothing(stories: Stories) -> None:
    """As many bytes in the last parts, in the model's order, as long as they fit."""
    parts = parts_of(stories.empty(), Scheme("gptq4"), CPU)
    least = sum(part.sizes[0] for part in parts) + 4 * 11 * 64
    room = (sum(part.sizes[-1] for part in parts) - least) // 3
    budget = Budget(bits=8 * (least + room) / numbers_of(stories.empty()), storage=CPU)
    measured = stories.spread(budget, Scheme("gptq4"))
    blind: dict[str, WeightType] = {}
    left = room
    for part in reversed(parts[:-1]):
        at4, *_, at8 = part.sizes
        if at8 - at4 <= left:
            left -= at8 - at4
            blind[part.name] = INT8
    blindly = Scheme("gptq4", head_bits=4).with_types(blind)
    kl = []
    for scheme in (measured, blindly):
        report = stories.quantized(scheme, CPU)[1]
        assert report.quality is not None
        kl.append(report.quality.kl)
    assert kl[0] < 0.9 * kl[1]


@pytest.mark.parametrize(
    ("scheme", "budget", "sentence"),
    [
        ("rtn8", {"bits": 5.0}, "a budget spreads 2 to 8 bits, and rtn8 stores 8; take one of"),
        ("gptq4", {"bits": 4.0}, "--bits 4 is not possible; in groups of 32 the model takes at"),
        (
            "gptq4",
            {"size": 99000, "other": 1000},
            "--max-size 99,000 bytes is not possible; in groups of 32 the smallest file may take",
        ),
        ("gptq4", {"bits": 5.0, "size": 1}, "a budget is in bits or in bytes; give one of --bits "),
        ("gptq4", {}, "a budget is in bits or in bytes; give one of --bits and --max-size."),
        (
            "gptq4",
            {"bits": -1.0},
            "--bits -1 is not a valid budget; give a number above 0 and at most 9, such as 6.",
        ),
        (
            "gptq4",
            {"bits": math.nan},
            "--bits nan is not a valid budget; give a number above 0 and at most 9, such as 6.",
        ),
        (
            "gptq4",
            {"bits": math.inf},
            "--bits inf is not a valid budget; give a number above 0 and at most 9, such as 6.",
        ),
        ("gptq4", {"size": 0}, "--max-size 0 is not a valid budget; give a size above 0."),
    ],
)
def test_a_budget_that_cannot_be_kept_is_an_error(
    stories: Stories, scheme: str, budget: dict[str, float], sentence: str
) -> None:
    with pytest.raises(QuantError) as error:
        stories.spread(Budget(**budget), Scheme(scheme))  # type: ignore[arg-type]
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize(
    ("group_size", "asked", "bits", "advice"),
    [
        (128, 5.0, "5.210", "ask for more, or take --group-size 32."),
        (128, 3.0, "5.210", "ask for more."),
        (32, 3.0, "3.461", "ask for more."),
    ],
)
def test_only_groups_that_suffice_are_advised(
    stories: Stories, group_size: int, asked: float, bits: str, advice: str
) -> None:
    """Of rows of 64 and 172 numbers a group of 128 is mostly padding: 8 bits take less."""
    with pytest.raises(QuantError) as error:
        stories.spread(Budget(bits=asked, storage=CPU), Scheme("gptq4", group_size))
    assert f"the model takes at least {bits} bits a weight: {advice}" in str(error.value)


def test_a_budget_beyond_all_weights_is_8_bits(stories: Stories) -> None:
    scheme = stories.spread(Budget(size=10**15), Scheme("gptq4"))
    names = {part.name for part in parts_of(stories.empty(), scheme, STOCK)}
    assert dict(scheme.types) == dict.fromkeys((*names, HEAD_PART), INT8)
