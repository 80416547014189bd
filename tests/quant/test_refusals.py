"""What `python -m quant` refuses or cannot do: one sentence, and the exit code that says which."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file
from support.quantization import CONFIG, empty_model, random_weights, tokens
from support.small_disk import small_disk

from quant.cache.store import Cache
from quant.commands.checks import read_text
from quant.commands.cli import main
from quant.errors import QuantError
from quant.quantize import quantize
from quant.scheme import Scheme


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_what_cannot_be_removed_is_not_called_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    cache.store("key", {"x": torch.zeros(10)}, "layer 0")

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        for option in (["--clear"], ["--prune", "1B"]):
            result = run("cache", "--cache", tmp_path, *option)
            assert result.exit_code == 1 and result.stdout == ""
            assert result.stderr.startswith("Error: [Errno 30] Read-only file system: ")
    (tmp_path / "layers" / ".half.1.tmp").write_bytes(b"half")
    exported = tmp_path / "models" / "x.pte"
    exported.parent.mkdir()
    exported.touch()
    assert run("cache", "--cache", tmp_path, "--clear").exit_code == 0
    assert list((tmp_path / "layers").iterdir()) == [] and exported.exists()
    assert "thimble-run exported are not among them" in run("cache", "--help").stdout


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["nosuch"], "No such command 'nosuch'."),
        (["run"], "Missing argument 'MODEL'."),
        (["run", ""], "MODEL is empty; name a model such as llama3."),
        (
            ["run", "llama3", "--method", ""],
            "--method is empty; write NAME=VALUE, such as rotation=none, or leave it out.",
        ),
        (["compare", "", "--held-out", ""], "--held-out is empty; name a text file, or leave it"),
        (["eval", "llama3", "--against", ""], "--against is empty; name a model such as llama3, "),
        (
            ["run", "llama3", "--quant", "rtn4", "--calibration-tokens", "5"],
            "--calibration-tokens 5 has no effect with rtn4, which does not calibrate; leave it",
        ),
        *(
            (
                [*command, "--calibration-tokens", "99999999999"],
                "Invalid value for '--calibration-tokens': 99999999999 is not in the range 1<=x<=",
            )
            for command in (["run", "llama3"], ["compare"])
        ),
        (
            ["run", "llama3", "--calibration", __file__, "--calibration-tokens", "999999"],
            f"--calibration-tokens 999999 is more than the {os.path.getsize(__file__)} bytes",
        ),
        (["cache", "--cache", "/no/such"], "--cache /no/such does not exist; check its path."),
        (["cache", "--cache", ""], "--cache is empty; name a directory, or leave it out."),
    ],
)
def test_command_lines_that_cannot_be_meant(command: list[str], sentence: str) -> None:
    result = run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {sentence}") and result.stderr.count("\n") == 1


def fill(model: Path, text: Path, *options: object) -> Result:
    arguments = ("--calibration", text, "--calibration-tokens", 512, "--device", "cpu")
    return run("run", model, *arguments, *options)


def test_too_little_memory_is_refused_before_any_work(
    one_layer_checkpoint: Path, calibration_text: Path, tmp_path: Path
) -> None:
    options = ("--cache", tmp_path / "cache", "--max-memory", "1MB")
    result = fill(one_layer_checkpoint, calibration_text, *options)
    assert result.exit_code == 2 and result.stdout == ""
    assert "--max-memory is 1.0 MB, but PyTorch and ExecuTorch alone need about" in result.stderr


def test_a_run_that_kept_nothing_has_failed(
    one_layer_checkpoint: Path, calibration_text: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "cache"
    result = fill(one_layer_checkpoint, calibration_text, "--cache", place)
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.splitlines()[-1] == (
        f"Error: {place} could not store all layers; free some space, or choose another place with "
        "--cache."
    )


def test_a_run_on_a_full_disk_loses_nothing(
    one_layer_checkpoint: Path, calibration_text: Path, tmp_path: Path
) -> None:
    """What was cached before stays, and no part of a layer is left."""
    cache = Cache(tmp_path)
    cache.store("old", {"weight": torch.arange(9.0)}, "layer")
    with small_disk(1000):
        result = fill(one_layer_checkpoint, calibration_text, "--cache", tmp_path)
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.count(f"{tmp_path} cannot store more (File too large)") == 1
    assert f"Error: {tmp_path} could not store all layers; " in result.stderr.splitlines()[-1]
    entries = cache.entries()  # a small one fits
    assert all(entry.sound for entry in entries) and "old" in {entry.key for entry in entries}
    assert len(list((tmp_path / "layers").iterdir())) == len(entries)


@pytest.mark.parametrize("command", ["eval", "compare"])
def test_weights_that_are_not_finite_are_not_measured(
    shared_data: Path, tmp_path: Path, command: str
) -> None:
    model = tmp_path / "model"
    shutil.copytree(shared_data / "stories260K", model, copy_function=shutil.copyfile)
    model.chmod(0o755)
    tensors = load_file(model / "model.safetensors")
    tensors["model.norm.weight"][0] = torch.nan
    save_file(tensors, model / "model.safetensors")
    text = shared_data / "text" / "tinystories_sample.txt"
    result = run(command, model, "--text" if command == "eval" else "--held-out", text)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr == (
        "Error: model.norm.weight holds values that are not finite; no model computes with them: "
        "check the checkpoint.\n"
    )


@pytest.mark.parametrize("scheme", ["none", "rtn4"])
@pytest.mark.parametrize("name", ["model.layers.1", "lm_head"])
def test_a_model_that_overflows_is_refused(scheme: str, name: str) -> None:
    weights = random_weights(CONFIG)
    huge = {"model.layers.1": "model.layers.1.mlp.up_proj.weight", "lm_head": "model.norm.weight"}
    weights.tensors[huge[name]].fill_(3e38)
    with pytest.raises(QuantError) as error:
        quantize(empty_model(CONFIG), Scheme(scheme), weights, evaluation=tokens())
    assert str(error.value) == (
        f"{name} gives values that are not finite, in float32 and before any rounding; no model "
        "computes with them: check the checkpoint."
    )


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"\xef\xbb\xbfOnce upon a time")
    assert read_text(tmp_path / "text.txt") == "Once upon a time"
