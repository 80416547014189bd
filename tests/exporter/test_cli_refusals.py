"""What `python -m exporter` refuses: one sentence, exit code 2, and no file left or touched.

In process, through the command's own entry; test_cli_failures.py has what needs a process.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from exporter.commands.cli import main
from exporter.errors import ExportError
from exporter.file.replacing import check_outputs

OLD = b"the file that was there before"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A file that a refused export must not touch, alone in its directory."""
    path = tmp_path / "out" / "model.pte"
    path.parent.mkdir()
    path.write_bytes(OLD)
    return path


@pytest.fixture
def stories(shared_data: Path, tmp_path: Path) -> Path:
    """A copy of stories260K, in links, of which a test may replace a file."""
    directory = tmp_path / "stories"
    directory.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.model"):
        (directory / name).symlink_to(shared_data / "stories260K" / name)
    return directory


@pytest.fixture
def calibration(shared_data: Path) -> Path:
    return shared_data / "text" / "tinystories_calibration.txt"


def refusal(out: Path, *arguments: str | Path) -> str:
    """The sentence of a refused export."""
    result = CliRunner().invoke(main, [*map(str, arguments), "--out", str(out)])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    message = result.stderr
    assert message.startswith("Error: ") and message.count("\n") == 1, message
    assert message.endswith(".\n")
    if os.path.isfile(out):
        assert out.read_bytes() == OLD
        assert list(out.parent.iterdir()) == [out]
    return message.removeprefix("Error: ").rstrip("\n")


def replace_file(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def replace_config(stories: Path, **changes: Any) -> None:
    config = json.loads((stories / "config.json").read_text())
    replace_file(stories / "config.json", json.dumps({**config, **changes}).encode())


def test_no_such_model(out: Path) -> None:
    sentence = refusal(out, "missing")
    assert sentence.startswith("There is no model 'missing'; name one of llama2, llama3, ")
    assert sentence.endswith("a directory, or a hub id such as meta-llama/Llama-3.2-1B.")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("nofile.pte", "file"), ("./no.gguf", "file"), ("~/no", "directory"), ("a/b/c", "directory")],
)
def test_no_such_path(out: Path, name: str, kind: str) -> None:
    assert refusal(out, name) == (
        f"There is no {kind} '{name}'; name a directory, a GGUF file, a hub id such as "
        "meta-llama/Llama-3.2-1B, or a model such as llama3."
    )


def test_an_unknown_preset_names_the_nearest(out: Path) -> None:
    sentence = refusal(out, "llama3.2-2b")
    assert "There is no model 'llama3.2-2b' (did you mean llama3.2-" in sentence


@pytest.mark.parametrize("model", [["llama3"], []], ids=["named", "unnamed"])
def test_no_such_checkpoint(out: Path, tmp_path: Path, model: list[str]) -> None:
    assert refusal(out, *model, "--checkpoint", tmp_path / "none") == (
        f"There is no directory {tmp_path / 'none'}; a checkpoint is a directory, a GGUF file "
        "or a hub id such as meta-llama/Llama-3.2-1B."
    )


def test_a_directory_without_config(out: Path, stories: Path) -> None:
    (stories / "config.json").unlink()
    assert f"{stories} has no config.json; " in refusal(out, stories)


def test_truncated_weights(out: Path, stories: Path) -> None:
    whole = (stories / "model.safetensors").read_bytes()
    for length in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        replace_file(stories / "model.safetensors", whole[:length])
        sentence = refusal(out, stories)
        assert sentence.startswith(f"{stories}/model.safetensors "), sentence
        assert "; download it again" in sentence


def test_an_unknown_architecture(out: Path, stories: Path) -> None:
    replace_config(stories, model_type="mamba")
    sentence = refusal(out, stories)
    assert sentence.startswith(
        f"{stories}/config.json: model_type 'mamba' is not supported; supported are "
    )
    assert {"cwm", "exaone4"} <= set(sentence.rpartition("supported are ")[2].split(", "))


def test_attention_that_a_delegate_lacks(out: Path, stories: Path) -> None:
    """It is refused before the weights are quantized, which may take hours."""
    replace_config(stories, model_type="mistral", sliding_window=40)
    assert refusal(out, stories, "--quant", "rtn4", "--delegate", "vulkan") == (
        "vulkan does not support attention over a sliding window, which is 40 positions here: "
        "export with --delegate cpu, xnnpack, coreml, mps or mlx, or export with a "
        "--max-context-len that the window covers."
    )


def test_what_metal_does_not_compute(out: Path, stories: Path) -> None:
    replace_config(stories, model_type="granite", embedding_multiplier=12.0)
    assert refusal(out, stories, "--quant", "rtn4", "--delegate", "mps") == (
        "mps does not compute a factor on the embedding: export with --delegate cpu, xnnpack, "
        "coreml, vulkan or mlx."
    )


def test_weights_of_another_shape(out: Path, stories: Path, calibration: Path) -> None:
    replace_config(stories, num_hidden_layers=6)
    sentence = refusal(out, stories, "--calibration", calibration)
    assert "do not fit its config (llama, 6 layers): 9 missing: model.layers.5." in sentence


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--group-size", "33", "group size 33 is not supported; it must be one of 32, 64, 128."),
        ("--head-bits", "7", "head bits 7 is not supported; it must be one of 8, 6, 5, 4, 3, 2."),
        (
            "--quant",
            "int3",
            "scheme 'int3' is not supported; it must be one of none, rtn4, hqq4, awq4, gptq4, "
            "rtn8, keep.",
        ),
        (
            "--delegate",
            "npu",
            "delegate 'npu' is not known; it must be one of cpu, xnnpack, coreml, mps, tosa, "
            "vulkan, mlx, qnn.",
        ),
    ],
)
def test_unknown_values(out: Path, stories: Path, option: str, value: str, sentence: str) -> None:
    assert refusal(out, stories, option, value) == sentence


@pytest.mark.parametrize("quant", ["none", "keep", "rtn4", "rtn8", "hqq4"])
def test_calibration_of_a_scheme_without_any(out: Path, stories: Path, quant: str) -> None:
    assert refusal(out, stories, "--quant", quant, "--calibration-tokens", "5") == (
        f"--calibration-tokens 5 has no effect with {quant}, which does not calibrate; leave it "
        "out, or take gptq4."
    )


@pytest.mark.parametrize("use", ["--method=rotation=learned", "--bits=5", "--max-size=1kB"])
def test_calibration_that_rtn4_has_a_use_for(out: Path, use: str) -> None:
    options = ("--quant", "rtn4", "--calibration-tokens", "5", use, "--device", "tpu")
    assert refusal(out, "llama3", *options).startswith("--device 'tpu' is not supported")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            "--max-context-len 513",
            "--max-context-len 513 is not possible; it must be from 3 to 512, the model's limit.",
        ),
        (
            "--max-context-len 0",
            "--max-context-len 0 is not possible; it must be from 3 to the model's limit.",
        ),
        (
            "--max-context-len 2 --delegate cpu",
            "--max-context-len 2 is not possible; it must be from 3 to the model's limit.",
        ),
        (
            "--max-seq-len 513",
            "--max-seq-len 513 is not possible; it must be from 1 to 512, the context length.",
        ),
        (
            "--max-context-len 64 --max-seq-len 65",
            "--max-seq-len 65 is not possible; it must be from 1 to 64, the context length.",
        ),
        (
            "--max-seq-len 0",
            "--max-seq-len 0 is not possible; it must be from 1 to the context length.",
        ),
    ],
)
def test_impossible_lengths(
    out: Path, stories: Path, calibration: Path, options: str, sentence: str
) -> None:
    assert refusal(out, stories, "--calibration", calibration, *options.split()) == sentence


def test_a_disk_that_is_too_small(out: Path, stories: Path, calibration: Path) -> None:
    """For tables of a trillion positions no disk has room."""
    replace_config(stories, max_position_embeddings=2**40)
    sentence = refusal(
        out, stories, "--calibration", calibration, "--max-context-len", str(2**40), "--no-cache"
    )
    assert re.fullmatch(
        rf"{out} needs about 35184.4 GB, but {out.parent} has only [\d.]+ [kMG]B free; free some "
        r"space, or choose another place with --out\.",
        sentence,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THIMBLE_CACHE", str(out.parent))
        arguments = ["--calibration", calibration, "--max-context-len", str(2**40), "--no-cache"]
        assert refusal(out, stories, *arguments).endswith("with the environment's THIMBLE_CACHE.")


def test_a_tokenizer_with_more_tokens_than_the_model(
    out: Path, stories: Path, shared_data: Path
) -> None:
    llama2 = shared_data / "tokenizers" / "llama2_tokenizer.model"
    assert refusal(out, stories, "--tokenizer", llama2) == (
        "The tokenizer has 32000 tokens but stories has a vocabulary of 512; give the model's own "
        "with --tokenizer."
    )


def test_a_tokenizer_without_the_token_that_ends_a_text(out: Path, stories: Path) -> None:
    replace_config(stories, eos_token_id=[2, 600], vocab_size=640)
    assert refusal(out, stories) == (
        "stories ends a text at token 600, but the tokenizer has 512 tokens; give the model's own "
        "with --tokenizer."
    )


def test_a_tokenizer_of_an_impossible_name(out: Path, stories: Path) -> None:
    name = "x" * 300
    assert refusal(out, stories, "--tokenizer", name) == (
        f"Invalid value for '--tokenizer': Path '{name}' does not exist."
    )


def test_no_tokenizer(out: Path, stories: Path) -> None:
    (stories / "tokenizer.model").unlink()
    assert refusal(out, stories).startswith(f"{stories} has no tokenizer: ")


def test_calibration_text_that_is_missing(out: Path, stories: Path, tmp_path: Path) -> None:
    assert refusal(out, stories, "--calibration", tmp_path / "none.txt") == (
        f"The calibration text {tmp_path}/none.txt cannot be read (No such file or directory); "
        "name a UTF-8 text file with --calibration."
    )
    assert "cannot be read (Is a directory)" in refusal(out, stories, "--calibration", tmp_path)


def test_calibration_text_that_is_too_short(out: Path, stories: Path, tmp_path: Path) -> None:
    text = tmp_path / "short.txt"
    text.write_text("Once upon a time")
    sentence = refusal(out, stories, "--calibration", text)
    assert sentence.startswith(f"The calibration text {text}: ")
    assert sentence.endswith("which is one window): give a longer text.")


def test_calibration_text_that_is_not_utf8(out: Path, stories: Path, tmp_path: Path) -> None:
    text = tmp_path / "latin1.txt"
    text.write_bytes("Une fée".encode("latin-1") * 999)
    assert refusal(out, stories, "--calibration", text).startswith(
        f"The calibration text {text} is not UTF-8 (byte 5: invalid continuation byte); name a"
    )


def test_places_that_cannot_be_written(stories: Path, tmp_path: Path) -> None:
    assert refusal(tmp_path / "no" / "x.pte", stories) == (
        f"{tmp_path}/no/x.pte cannot be written (No such file or directory); name a file in an "
        "existing, writable directory."
    )
    assert refusal(tmp_path, stories) == f"{tmp_path} is a directory; name a file to write."
    below_a_file = stories / "tokenizer.model" / "x.pte"
    assert "cannot be written (Not a directory)" in refusal(below_a_file, stories)
    assert "cannot be written (File name too long)" in refusal(tmp_path / ("x" * 300), stories)
    assert "cannot be written (" in refusal(Path("/sys/x.pte"), stories)  # read-only, to root too
    assert not list(tmp_path.glob("**/*.tmp"))


def test_inputs_are_not_overwritten(stories: Path, out: Path, tmp_path: Path) -> None:
    text, link = tmp_path / "text.txt", tmp_path / "link.txt"
    text.write_text("Once upon a time. " * 200)
    os.link(text, link)
    tokenizer = stories / "tokenizer.model"
    before = tokenizer.read_bytes(), text.read_bytes()
    reason = " is an input of this export, which would overwrite it; name another file to write."
    for place, *options in (
        (text, "--out", text, "--calibration", text),
        (link, "--out", link, "--calibration", text),
        (tokenizer, "--out", tokenizer),
        (tokenizer, "--out", out, "--etrecord", tokenizer),
    ):
        result = CliRunner().invoke(main, [str(stories), *map(str, options)])
        assert (result.stderr, result.exit_code) == (f"Error: {place}{reason}\n", 2)
    assert (tokenizer.read_bytes(), text.read_bytes()) == before


def test_an_earlier_file_beside_the_inputs_is_replaced(stories: Path) -> None:
    out, config = stories / "model.pte", stories / "config.json"
    out.write_bytes(OLD)
    check_outputs(out, None, [stories, config, "meta-llama/Llama-3.2-1B"])
    with pytest.raises(ExportError, match="is an input of this export"):
        check_outputs(config, None, [stories])


def test_an_etrecord_that_cannot_be_written(out: Path, stories: Path, tmp_path: Path) -> None:
    assert "no/x.etrecord cannot be written" in refusal(
        out, stories, "--etrecord", tmp_path / "no" / "x.etrecord"
    )
    for other in (out, out.parent / ".." / "out" / "model.pte"):
        assert "is both --out and --etrecord" in refusal(out, stories, "--etrecord", other)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            [],
            "Error: Name a MODEL such as llama3, a checkpoint with --checkpoint, or a file with "
            "--inspect.",
        ),
        (["--checkpoint", "DIR"], "Error: No output file was given; add --out model.pte."),
        (["llama3"], "Error: No output file was given; add --out model.pte."),
        (
            ["llama3", "--out", "x.pte", "--head-bits", "4", "--bits", "5"],
            "Error: --head-bits has no effect with --bits or --max-size, which choose",
        ),
        (
            ["llama3", "--explain", "--head-bits", "4", "--bits", "5"],
            "Error: --head-bits has no effect with --bits or --max-size, which choose",
        ),
        (["llama3", "--list-delegates"], "Error: --list-delegates exports nothing; leave out"),
        (
            ["--inspect", __file__, "--quant", "rtn4", "--bits", "5"],
            "Error: --inspect exports nothing; leave out --quant and --bits.",
        ),
        (
            ["DIR", "--checkpoint", "DIR", "--out", "x.pte"],
            "Error: DIR and --checkpoint DIR are two checkpoints: leave one of them out.",
        ),
        (
            ["llama3", "--out", "x.pte", "--vision-quant", "int8"],
            "Error: --vision-quant int8 is not supported for what sees; use one of none, rtn8, ",
        ),
        (
            ["llama3", "--out", "x.pte", "--vision-quant", "rtn8"],
            "Error: --vision-quant rtn8 has no effect, as the file will not see: leave it out, or ",
        ),
        (
            ["llama3", "--out", "x.pte", "--no-vision"],
            "Error: --no-vision has no effect, as this model reads no pictures: leave it out.",
        ),
        (
            ["llama3", "--explain", "--no-vision"],
            "Error: --no-vision has no effect, as this model reads no pictures: leave it out.",
        ),
        (["llama3", "--quantize"], "Error: No such option '--quantize'."),
        (["llama3", "--group-size", "x"], "Error: Invalid value for '--group-size': 'x' is not"),
        ([""], "Error: MODEL is empty; name a model such as llama3, or leave it out."),
        (
            ["llama3", "--method", ""],
            "Error: --method is empty; write NAME=VALUE, such as rotation=none, or leave it out.",
        ),
        *(
            (["llama3", "--out", "x.pte", option, ""], f"Error: {option} is empty; name ")
            for option in ("--adapter", "--cache", "--calibration", "--checkpoint", "--etrecord")
        ),
        (["llama3", "--out", ""], "Error: --out is empty; name a .pte to write, or leave it out."),
        (["--inspect", ""], "Error: --inspect is empty; name a .pte, or leave it out."),
        (["llama3", "--out", "-"], "Error: --out is -, which is not a file; name a .pte to write."),
    ],
)
def test_unfinished_command_lines(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(sentence) and result.stderr.count("\n") == 1
