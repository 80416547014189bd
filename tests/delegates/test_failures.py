"""What a delegate lacks or does not take: one sentence, exit code 2, nothing left behind; and every
column of --list-delegates is what refuses."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.decoder_specs import SMALL
from support.small_models import quantized_model, random_model, with_two_levels
from support.tiers import checked

from delegates import DELEGATES, DelegateError, get_delegate
from delegates.features import Feature, Need
from exporter.capture.program import capture
from exporter.catalogue.names import EMBEDDED
from exporter.checkpoint import open_checkpoint
from exporter.options import ExportOptions
from exporter.plan.requirements import require_supported
from quant.scheme import METHODS, Scheme
from quant.weight_type import WeightType

REPOSITORY = Path(__file__).resolve().parents[2]

# Runs several commands in one process from which some packages are gone, and prints what each said.
CHILD = """
import importlib.abc, json, sys

class Gone(importlib.abc.MetaPathFinder):
    names = {"tosa_serializer", "ml_dtypes", "coremltools", "executorch.backends.mlx"}
    def find_spec(self, name, path, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in Gone.names else find_spec(name)
sys.meta_path.insert(0, Gone())
from click.testing import CliRunner
from exporter.commands.cli import main

said = {}
for delegate in json.loads(sys.argv[1]):
    result = CliRunner().invoke(main, [*sys.argv[2:], "--delegate", delegate])
    said[delegate] = [result.exit_code, result.stdout, result.stderr]
print(json.dumps(said))
"""
LACKING = {
    "tosa": "Arm's tosa-tools is not installed, and the tosa delegate needs it: pip install "
    "ml_dtypes && pip install --no-deps tosa-tools==2026.5.0",
    "coreml": "Apple's coremltools is not installed, and the coreml delegate needs it: pip install "
    "coremltools==9.0",
    "mlx": "This installation of ExecuTorch has no backends/mlx with its schema and generator, and "
    "the mlx delegate needs them: pip install executorch==1.5.1, or choose another --delegate.",
    "qnn": "Qualcomm's AI Engine Direct SDK is not installed (QNN_SDK_ROOT is not a "
    "directory), but the qnn delegate needs its compiler. Get it from "
    "https://www.qualcomm.com/developer/software/qualcomm-ai-engine-direct-sdk, set QNN_SDK_ROOT "
    "to its directory and add its lib/x86_64-linux-clang to LD_LIBRARY_PATH.",
    "cpu,mlx": "This installation of ExecuTorch has no backends/mlx with its schema and generator, "
    "and the mlx delegate needs them: pip install executorch==1.5.1, or choose another --delegate.",
    "npu": f"delegate 'npu' is not known; it must be one of {', '.join(DELEGATES)}.",
    "cpu,cpu": "delegate 'cpu' is repeated in 'cpu,cpu'; use each only once.",
}


@pytest.mark.check
def test_a_missing_package_or_sdk_or_name_is_one_sentence(
    one_layer_checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    child = subprocess.run(
        [
            *(sys.executable, "-c", CHILD, json.dumps(list(LACKING))),
            *(str(one_layer_checkpoint), "--out", str(tmp_path / "model.pte")),
            *("--quant", "none", "--max-seq-len", "1", "--no-cache"),
        ],
        cwd=REPOSITORY,
        env={
            **{name: value for name, value in os.environ.items() if name != "QNN_SDK_ROOT"},
            "TMPDIR": str(tmp_path / "tmp"),
        },
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
    said = json.loads(child.stdout)
    for delegate, sentence in LACKING.items():
        assert said[delegate] == [2, "", f"Error: {sentence}\n"], delegate
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]


def test_core_ml_where_its_converter_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """No advice that cannot be followed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert get_delegate("coreml").LIMITS.missing() == (
        "Apple's coremltools, which the coreml delegate needs, is not made for aarch64 Linux: "
        "export on x86-64 or on a Mac."
    )


@pytest.fixture
def nothing_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Qualcomm's SDK as far as the limits look; the tests stop before it is used."""
    monkeypatch.setenv("QNN_SDK_ROOT", str(tmp_path))


@pytest.mark.parametrize("name", DELEGATES)
def test_a_width_that_is_not_listed_is_refused_before_any_work(
    name: str, nothing_missing: None
) -> None:
    limits = get_delegate(name).LIMITS
    if limits.missing() is not None:
        pytest.skip(str(limits.missing()))
    for bits in limits.weight_bits:
        limits.check_weights(bits, 1)
    for bits in {2, 3, 4, 5, 6, 8, 16, 32} - set(limits.weight_bits):
        with pytest.raises(DelegateError) as refused:
            limits.check_weights(bits, 1)
        assert str(refused.value).startswith(f"{name} supports weights of ")
        assert f"bits, but these have {bits}: export with --quant " in str(refused.value)


@pytest.mark.parametrize("name", DELEGATES)
def test_float16_scales_of_groups_are_refused_by_name(name: str, nothing_missing: None) -> None:
    """By the request, and by a program that no command has looked at before."""
    delegate = get_delegate(name)
    limits = delegate.LIMITS
    if name in ("cpu", "mps"):
        limits.check([Need(Feature.FLOAT16_GROUPS)])
        return
    with pytest.raises(DelegateError) as refused:
        limits.check([Need(Feature.FLOAT16_GROUPS)])
    assert str(refused.value) == (
        f"{name} does not support integers with a float16 scale for each group, which --quant keep "
        "takes from the checkpoint: export with --delegate cpu or mps, or use another --quant, "
        "such as rtn8."
    )
    if limits.missing() is not None or 8 not in limits.weight_bits:
        return
    program = capture(quantized_model(random_model(SMALL), Scheme("keep")), 24, 1)
    with pytest.raises(DelegateError, match=f"^{name} does not support integers with a float16"):
        delegate.lower(program, {}, {}, False)


@pytest.mark.parametrize("part", ["layers", *checked(["embedding"])])
@pytest.mark.parametrize("name", DELEGATES)
def test_five_and_six_bits_are_refused_by_name(name: str, part: str, nothing_missing: None) -> None:
    """In a program that no command has looked at before."""
    delegate = get_delegate(name)
    limits = delegate.LIMITS
    if limits.missing() is not None:
        pytest.skip(str(limits.missing()))
    model = quantized_model(random_model(SMALL), Scheme("rtn8", whole_rows=True))
    inner = model.model
    with_two_levels(inner.layers if part == "layers" else inner.embed_tokens, WeightType(5, 32, 2))
    program = capture(model, 24, 1)
    if name in ("cpu", "mps"):
        limits.check_program(program)
        return
    with pytest.raises(DelegateError, match=f"^{name} supports weights of .* but these have [58]:"):
        delegate.lower(program, {}, {}, False)


@pytest.mark.parametrize("name", ["coreml", "mlx", "vulkan", "xnnpack"])
def test_inputs_that_are_rotated_are_refused(name: str, nothing_missing: None) -> None:
    delegate = get_delegate(name)
    assert not delegate.LIMITS.rotates
    if delegate.LIMITS.missing() is not None:
        pytest.skip(str(delegate.LIMITS.missing()))
    rotated = Scheme("rtn4", method=replace(METHODS["rtn4"], rotation="inputs"))
    program = capture(quantized_model(random_model(SMALL), rotated), 24, 1)
    with pytest.raises(DelegateError, match="is rotated at run time, which this delegate"):
        delegate.lower(program, {}, {}, False)


@pytest.mark.parametrize("name", ["xnnpack", "coreml", "xnnpack,cpu"])
def test_a_head_of_6_bits_is_refused_before_any_work(name: str) -> None:
    limits = get_delegate(name).LIMITS
    for bits in (4, 8):
        limits.check_head(bits)
    with pytest.raises(DelegateError, match=f"^{name} does not support an embedding and"):
        limits.check_head(6)
    get_delegate("cpu").LIMITS.check_head(6)
    get_delegate("mps,cpu").LIMITS.check_head(5)
    with pytest.raises(DelegateError, match="^mps,cpu does not support an embedding and"):
        get_delegate("mps,cpu").LIMITS.check_head(3)


@pytest.mark.parametrize(("name", "fits", "wrong"), [("vulkan", 68, 66), ("mlx", 96, 80)])
def test_a_hidden_size_that_does_not_fit_is_refused_before_any_work(
    name: str, fits: int, wrong: int, tmp_path: Path
) -> None:
    limits, embedded = get_delegate(name).LIMITS, open_checkpoint(EMBEDDED)

    def require(hidden_size: int, scheme: str) -> None:
        config = replace(embedded.config, hidden_size=hidden_size)
        options = ExportOptions("llama3", tmp_path, scheme=Scheme(scheme), delegate=name)
        require_supported(options, replace(embedded, config=config), limits, 64, 1)

    require(fits, "rtn4")
    require(wrong, "none")
    with pytest.raises(DelegateError, match=f"^{name} does not support a quantized model with a h"):
        require(wrong, "rtn4")


@pytest.mark.parametrize("name", [name for name in DELEGATES if name not in ("cpu", "xnnpack")])
def test_lowering_refuses_what_is_not_listed(name: str, nothing_missing: None) -> None:
    """Also of a program that no command has looked at before."""
    delegate = get_delegate(name)
    limits = delegate.LIMITS
    if limits.missing() is not None:
        pytest.skip(str(limits.missing()))
    for bits, scheme in ((4, "rtn4"), (8, "rtn8")):
        if bits not in limits.weight_bits:
            program = capture(quantized_model(random_model(SMALL), Scheme(scheme)), 24, 1)
            with pytest.raises(DelegateError, match=f"^{name} supports .* but these have {bits}: "):
                delegate.lower(program, {}, {}, False)
    if not limits.dynamic:
        with pytest.raises(DelegateError, match="has fixed shapes, but this one has calls of 1"):
            delegate.lower(capture(random_model(SMALL), 24, 16), {}, {}, False)
