"""Several delegates in order of preference: what goes where, and why the rest does not, by line."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch
from click.testing import CliRunner
from support.cpu_models import ARCHITECTURES, CONTEXT
from support.decoder_specs import SMALL, varied
from support.exported import Quiet, feed
from support.families.gemma4_text import GEMMA4
from support.family_models import Case, reference_model
from support.small_models import quantized_model, random_model
from torch import Tensor, nn

import exporter.pipeline
from delegates import (
    DELEGATES,
    DelegateError,
    DelegationReport,
    Limits,
    Lowered,
    get_delegate,
    load_program,
)
from delegates.features import Feature, Need
from delegates.report import DelegateShare
from exporter.capture.program import capture
from exporter.catalogue.names import EMBEDDED
from exporter.commands.cli import main
from exporter.explain import explain_export
from exporter.file.pte import read_report
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

CONFIG = ARCHITECTURES["qwen3"]
HERE = "/".join(Path(__file__).parts[-2:])  # as it is imported


class Bent(nn.Module):
    """A function of what a module computes."""

    def __init__(self, inner: nn.Module, bend: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner = inner
        self.bend = bend

    def forward(self, *args: Any) -> Tensor:
        return self.bend(self.inner(*args))


def bent_model(bend: Callable[[Tensor], Tensor]) -> CausalLM:
    """A random model whose first attention ends in something else."""
    model = random_model(CONFIG)
    model.model.layers[0].self_attn = Bent(model.model.layers[0].self_attn, bend)
    return model


def clamped(x: Tensor) -> Tensor:
    return x.clamp(-3, 3)  # XNNPACK's, and not our CPU delegate's


def shifted_acosh(x: Tensor) -> Tensor:
    return torch.acosh(1 + x.abs())  # nobody's but ExecuTorch's kernels


def lowered_by(names: str, model: CausalLM) -> Lowered:
    return get_delegate(names).lower(capture(model, CONTEXT, CONTEXT), {}, {}, False)


def require_agreement(names: str, model: CausalLM, directory: Path) -> DelegationReport:
    """Lowers a model and runs it in this machine's runtime, with its delegates, beside the eager
    one."""
    tokens, lengths = torch.arange(24), [20, 3, 1]
    model.setup_cache(CONTEXT)
    want = feed(model, tokens, lengths)  # before lowering, which may take the weights
    lowered = lowered_by(names, model)
    path = directory / "model.pte"
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    step = load_program(lowered.report, path)
    assert step is not None
    torch.testing.assert_close(feed(step, tokens, lengths), want, rtol=1e-4, atol=1e-4)
    return lowered.report


def parts(report: DelegationReport) -> dict[str, DelegateShare]:
    assert sum(part.calls for part in report.parts) == report.calls
    inside = sum(sum(part.delegated.values()) for part in report.parts)
    assert inside == sum(report.delegated.values())
    return {part.delegate: part for part in report.parts}


@pytest.mark.check
def test_what_the_first_does_not_know_goes_to_the_second(tmp_path: Path, cpp_build: Path) -> None:
    report = require_agreement("cpu,xnnpack", bent_model(clamped), tmp_path)
    took = parts(report)
    assert took["cpu"].calls == 2 and took["cpu"].delegated["linear"] == 8
    assert took["xnnpack"].calls == 1
    assert took["xnnpack"].delegated == {"clamp": 1}
    assert report.users == ("cpu", "xnnpack")
    assert report.lines == ()


@pytest.mark.check
def test_the_other_way_around(tmp_path: Path, cpp_build: Path) -> None:
    report = require_agreement("xnnpack,cpu", bent_model(clamped), tmp_path)
    took = parts(report)
    assert took["xnnpack"].delegated["linear"] == 8
    assert took["cpu"].delegated == {"embedding": 1}
    reasons = {left.operator: left.reason for left in report.lines}
    assert reasons["mean"].startswith("xnnpack: mean.dim only supports averaging 4D tensors")
    assert "cpu" in reasons["llama::custom_sdpa"]


@pytest.mark.check
def test_events_keep_their_lines_with_each_of_several() -> None:
    program = capture(bent_model(clamped), CONTEXT, CONTEXT)
    lowered = get_delegate("xnnpack,cpu").lower(program, {}, {}, True)
    module = lowered.program.exported_program().graph_module
    calls = [call for _, call in module.named_children() if hasattr(call, "original_module")]
    assert {call.backend_id for call in calls} == {"XnnpackBackend", "ThimbleCpuBackend"}
    for call in calls:
        inside = {node.meta.get("debug_handle") for node in call.original_module.graph.nodes}
        (handles, *_) = call.meta["debug_handle_map"].values()
        assert set(handles) <= inside


@pytest.mark.soak
def test_a_program_that_core_ml_cannot_keep_together(tmp_path: Path, cpp_build: Path) -> None:
    report = require_agreement("coreml,cpu", bent_model(shifted_acosh), tmp_path)
    took = parts(report)
    refused = took["coreml"].refused or ""
    assert refused.startswith(f"Core ML's converter refused the parts around acosh ({HERE}:")
    assert "cannot pass each other the position" in refused
    assert took["cpu"].calls == 2 and took["cpu"].delegated["linear"] == 8
    assert report.users == ("cpu",)
    lines = {left.operator: left.line for left in report.lines}
    assert lines.keys() == {"acosh", "add", "abs", "_to_copy"}
    assert len(set(lines.values())) == 1


class Acosh(CausalLM):
    """Ends in an operator that Core ML does not have."""

    def head(self, hidden: Tensor) -> Tensor:
        return super().head(hidden).acosh()


@pytest.mark.check
def test_core_ml_takes_the_decoder_and_leaves_what_comes_after_it(tmp_path: Path) -> None:
    lowered = lowered_by("coreml,cpu", Acosh(CONFIG).requires_grad_(False))
    took = parts(lowered.report)
    assert took["coreml"].calls == 1 and took["coreml"].delegated["linear"] == 8
    assert took["cpu"] == DelegateShare("cpu")
    (left,) = lowered.report.lines
    assert (left.operator, left.count) == ("acosh", 1) and "cpu" in left.reason
    assert left.line.startswith("exporter/models/decoder.py:")
    plan = lowered.program.executorch_program.execution_plan[0]
    kinds = [type(item.instr_args).__name__ for item in plan.chains[0].instructions]
    assert kinds == ["DelegateCall", "KernelCall"]
    path = tmp_path / "model.pte"
    path.touch()
    assert load_program(lowered.report, path) is None


def test_a_delegate_that_takes_all_or_nothing_comes_first(tmp_path: Path, cpp_build: Path) -> None:
    report = require_agreement("cpu,vulkan", bent_model(shifted_acosh), tmp_path)
    assert parts(report)["vulkan"].refused == "It takes a complete program or nothing."


class Bessel(CausalLM):
    """Ends in an operator that nobody has."""

    def head(self, hidden: Tensor) -> Tensor:
        return torch.special.i0(super().head(hidden))


@pytest.mark.check
def test_an_operator_that_no_delegate_takes_leaves_no_file(
    one_layer_checkpoint: Path,
    calibration_text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("exporter.plan.plan.CausalLM", Bessel)
    nobody = (
        r"No delegate takes i0 \(exporter/models/decoder\.py:\d+\), and ExecuTorch has no kernel "
        "for it"
    )
    options = ExportOptions(
        model=str(one_layer_checkpoint),
        out=tmp_path / "model.pte",
        scheme=Scheme("none"),
        calibration=calibration_text,
        max_context_len=64,
    )
    with pytest.raises(DelegateError, match=f"^{nobody}; leave it out of the model"):
        export_model(options, Quiet())
    assert list(tmp_path.iterdir()) == []
    said = f"^None of cpu,xnnpack takes the program. cpu: {nobody}.* xnnpack: {nobody}"
    with pytest.raises(DelegateError, match=said):
        lowered_by("cpu,xnnpack", Bessel(CONFIG).requires_grad_(False))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ("coreml,npu", "delegate 'npu' is not known; it must be one of cpu, "),
        ("cpu,", "delegate '' is not known; it must be one of cpu, "),
        ("cpu,xnnpack,cpu", "delegate 'cpu' is repeated in 'cpu,xnnpack,cpu'; use each only once."),
    ],
)
def test_names(names: str, sentence: str) -> None:
    with pytest.raises(DelegateError) as refused:
        get_delegate(names)
    assert str(refused.value).startswith(sentence)


def test_what_is_missing_here_is_an_error_also_before_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("QNN_SDK_ROOT", raising=False)
    both = get_delegate("qnn,cpu")
    with pytest.raises(DelegateError, match="^Qualcomm's AI Engine Direct SDK is not installed"):
        both.LIMITS.check_weights(32, 1)
    with pytest.raises(DelegateError, match="^Qualcomm's AI Engine Direct SDK is not installed"):
        both.lower(capture(random_model(CONFIG), CONTEXT, 1), {}, {}, False)


def test_every_limit_has_a_rule_by_which_several_share_it() -> None:
    """Alone, it changes nothing."""
    limits = get_delegate("cpu").LIMITS
    hints = get_type_hints(Limits, include_extras=True)
    for each in fields(Limits):
        (rule,) = hints[each.name].__metadata__
        value = getattr(limits, each.name)
        alone = rule([value])
        assert (alone() == value()) if each.name in ("missing", "checks") else (alone == value)


def test_limits_of_several(cpp_build: Path) -> None:
    """What a program may have is what one of them takes; its form is the preferred one's."""
    cpu, xnnpack = get_delegate("cpu").LIMITS, get_delegate("xnnpack").LIMITS
    first, last = get_delegate("cpu,xnnpack").LIMITS, get_delegate("xnnpack,cpu").LIMITS
    apart = frozenset({Feature.ADAPTERS, Feature.ROTARY_BY_LENGTH})
    assert first == replace(
        cpu,
        name="cpu,xnnpack",
        runs_on=f"{cpu.runs_on}, {xnnpack.runs_on}",
        weight_bits=(4, 8, 32),
        missing=first.missing,
        checks=first.checks,
        streams_weights=False,
        int8_groups=False,
        rotates=False,
        default_context=xnnpack.default_context,
    )
    assert last.supports == cpu.supports - apart
    form = ("sizes", "kept_positions", "cached_bytes")
    assert all(getattr(last, name) == getattr(xnnpack, name) for name in form)
    both = get_delegate("tosa,vulkan").LIMITS
    assert both.weight_bits == (32, 4) and both.dynamic and not both.checks()
    both.check_weights(4, 16)
    with pytest.raises(DelegateError, match="^tosa,vulkan supports weights of 32 or 4 bits, but"):
        both.check_weights(8, 16)


@pytest.mark.parametrize("feature", Feature)
def test_all_who_support_a_feature_are_advised(feature: Feature) -> None:
    able = [name for name in DELEGATES if feature in get_delegate(name).LIMITS.supports]
    lacking = replace(get_delegate("cpu").LIMITS, supports=frozenset())
    with pytest.raises(DelegateError) as refused:
        lacking.check([Need(feature)])
    said = str(refused.value).rpartition("--delegate ")[2]
    (names,) = re.findall(r"^[a-z]+(?:, [a-z]+)*(?: or [a-z]+)?(?=[,.])", said)
    assert re.split(", | or ", names) == able


def test_only_those_who_take_all_of_a_model_are_advised() -> None:
    """Gemma 2: XNNPACK has windows, but no soft caps."""
    needs = [Need(Feature.WINDOWS, 9), Need(Feature.SOFT_CAPS, 50.0), Need(Feature.OTHER_STEPS)]
    with pytest.raises(DelegateError) as refused:
        get_delegate("vulkan").LIMITS.check(needs)
    said = str(refused.value)
    assert said.startswith("vulkan does not support attention over a sliding window, which is 9 ")
    assert "coreml" in said and "xnnpack" not in said and "--max-context-len" not in said


def test_a_hidden_size_that_one_of_them_lacks_goes_to_the_next() -> None:
    model = quantized_model(random_model(varied(SMALL, hidden_size=80)), Scheme("rtn4"))
    report = lowered_by("mlx,cpu", model).report
    refused = parts(report)["mlx"].refused or ""
    assert refused.startswith("mlx does not support a quantized model with a hidden size of 80,")
    assert report.users == ("cpu",)


@pytest.fixture(scope="module")
def gemma4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with windows, and layers that attend to the keys and values of others."""
    directory = tmp_path_factory.mktemp("gemma4")
    shape = {**GEMMA4, "hidden_activation": "silu", "vocab_size": 4096, "num_hidden_layers": 4}
    shape |= {"layer_types": GEMMA4["layer_types"][:4], "num_kv_shared_layers": 2}
    tables = {"vocab_size_per_layer_input": 4096, "max_position_embeddings": 512}
    reference_model(Case("gemma4_text", "shared", {**shape, **tables})).save_pretrained(directory)
    (directory / "tokenizer.json").symlink_to(EMBEDDED / "tokenizer.json")
    return directory


@pytest.mark.soak
@pytest.mark.parametrize(("names", "kept"), [("cpu,xnnpack", 64), ("xnnpack,cpu", 300)])
def test_a_model_with_windows_and_shared_keys(
    names: str, kept: int, gemma4: Path, tmp_path: Path, cpp_build: Path
) -> None:
    """It is explained and exported as the preferred delegate stores it, and the file is checked."""
    options = ExportOptions(
        model=str(gemma4),
        out=tmp_path / "model.pte",
        scheme=Scheme("none"),
        max_context_len=300,
        max_seq_len=40,
        delegate=names,
    )
    caches = {each.window: each.positions for each in explain_export(options, Quiet()).caches}
    assert caches == {9: kept, None: 300}
    result = export_model(options, Quiet())
    assert result.delegation.users[0] == names.split(",")[0]
    assert result.agreement is not None
    assert result.agreement.error <= result.agreement.tolerance


@pytest.mark.soak
def test_the_caches_are_those_of_the_delegate_that_takes_the_program(gemma4: Path) -> None:
    """The preferred one, which keeps the whole context, refuses it."""
    options = ExportOptions(
        model=str(gemma4),
        out=Path("unused.pte"),
        scheme=Scheme("none"),
        max_context_len=300,
        max_seq_len=40,
        delegate="mps,cpu",
    )
    alone = explain_export(replace(options, delegate="cpu"), Quiet())
    both = explain_export(options, Quiet())
    assert both.delegation.parts[0].refused and both.delegation.users == ("cpu",)
    assert both.caches == alone.caches and both.cache_type == alone.cache_type


@pytest.mark.check
def test_the_runner_tells_the_golden_story_with_two_delegates_and_a_kernel(
    shared_data: Path, tmp_path: Path, cpp_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command as a user gives it, of a model with an operator more that changes no number."""
    real = exporter.pipeline.load_quantized

    def bending(*args: Any) -> Any:
        model, report = real(*args)
        attention = model.model.layers[2].self_attn
        model.model.layers[2].self_attn = Bent(attention, lambda x: x + torch.sinh(x.clamp(0, 0)))
        return model, report

    monkeypatch.setattr(exporter.pipeline, "load_quantized", bending)
    out = tmp_path / "model.pte"
    result = CliRunner().invoke(
        main,
        [
            *(str(shared_data / "stories260K"), "--out", str(out), "--quant", "none"),
            *("--calibration", str(shared_data / "text" / "tinystories_calibration.txt")),
            *("--delegate", "tosa,cpu,xnnpack", "--no-cache"),
        ],
    )
    assert result.exit_code == 0, result.output
    shown = result.stdout.splitlines()
    start = shown.index("delegate: cpu and xnnpack run 36 of 36 linears (100%) in 3 calls")
    assert shown[start + 1] == (
        "  tosa: nothing. A tosa program has fixed shapes, but this one has calls of 1 to 512 "
        "tokens: export with --max-seq-len 1."
    )
    assert shown[start + 2].startswith("  cpu: ") and shown[start + 2].endswith(" in 2 calls")
    assert shown[start + 3] == "  xnnpack: 1 operator in 1 call"
    (sinh,) = [line for line in shown if line.startswith("  kernels: sinh ")]
    assert sinh.startswith(f"  kernels: sinh at {HERE}:")
    delegation = read_report(out)["delegation"]
    assert [part["delegate"] for part in delegation["parts"]] == ["tosa", "cpu", "xnnpack"]
    assert "sinh" in [line["operator"] for line in delegation["lines"]]
    golden = (shared_data / "stories260K" / "golden.txt").read_bytes()
    story = subprocess.run(
        [cpp_build / "runner", out, "-p", "", "-n", "256", "--temperature", "0"],
        capture_output=True,
        timeout=120,
    )
    assert story.returncode == 0, story.stderr
    assert story.stdout == golden
