"""`python -m quant eval` and `compare`: the protocol, a checkpoint, a `.pte`, the sentences."""

import json
import math
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file
from support.adapters import save_adapter
from support.exported import Quiet
from support.first_layers import stretched
from support.loading import loaded
from support.tiers import checked
from torch.nn import functional as F

from devtools.bench.random_weights import byte_tokenizer
from exporter.catalogue.find import open_model
from exporter.checkpoint import open_checkpoint
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.tokenizer import load_tokenizer
from quant.commands.cli import main
from quant.commands.windows import score_windows
from quant.errors import QuantError
from quant.scheme import Scheme


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def letters(text: str) -> list[int]:
    return [ord(character) for character in text]


def test_windows_follow_each_other_and_bos_begins_the_text_only() -> None:
    scored = score_windows("abcdefgh", letters, 4, None, 1, None)
    assert [window.tolist() for window in scored.windows] == [
        [1, *letters("abc")],
        letters("defg"),
    ]  # what is left, one token, predicts nothing
    assert scored.bytes_per_token == 1
    assert len(score_windows("abcdefgh", letters, 4, None, None, None).windows) == 2


def test_documents_have_windows_of_their_own() -> None:
    scored = score_windows("ab\n|\n|  cdé ", letters, 10, None, 1, "|")
    assert [window.tolist() for window in scored.windows] == [
        [1, *letters("ab")],
        [1, *letters("cdé")],
    ]
    assert scored.bytes_per_token == 6 / 5


def test_a_limit_of_tokens_is_kept() -> None:
    scored = score_windows("ab|cdef|gh", letters, 10, 4, 1, "|")
    assert sum(len(window) - 1 for window in scored.windows) == 4


def test_text_that_predicts_nothing_is_an_error() -> None:
    with pytest.raises(QuantError, match="the text is too short"):
        score_windows("a", letters, 10, None, None, None)


@pytest.fixture
def stories_text(shared_data: Path) -> Path:
    return shared_data / "text" / "tinystories_sample.txt"


def test_a_checkpoint_has_its_known_perplexity(shared_data: Path, stories_text: Path) -> None:
    model = shared_data / "stories260K"
    options = ("--text", stories_text, "--separator", "<|endoftext|>")
    result = run("eval", model, *options, "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["perplexity"] == pytest.approx(3.548, abs=0.001)
    assert figures["tokens"] == 1804 and figures["context"] == 512
    assert figures["kl"] is None and figures["top1"] is None
    documents = stories_text.read_text().split("<|endoftext|>")
    size = sum(len(document.strip().encode()) for document in documents)
    bits = math.log2(figures["perplexity"]) * figures["tokens"]
    assert figures["bits_per_byte"] == pytest.approx(bits / size, rel=1e-6)
    shown = run("eval", model, *options).stdout
    assert "perplexity     3.548" in shown and "bits per byte  0.88" in shown


def one_layer(data: Path, directory: Path, vocab_size: int = 512) -> Path:
    """The second layer of stories260K alone: quick to export. Its logits are too far apart for
    rounding to show, and so are made smaller."""
    source = data / "stories260K"
    config = json.loads((source / "config.json").read_text())
    config |= {"num_hidden_layers": 1, "vocab_size": vocab_size}
    (directory / "config.json").write_text(json.dumps(config))
    tensors = {
        name.replace(".layers.1.", ".layers.0."): tensor
        for name, tensor in load_file(source / "model.safetensors").items()
        if ".layers." not in name or ".layers.1." in name
    }
    tensors["model.norm.weight"] *= 0.3
    more = vocab_size - len(tensors["model.embed_tokens.weight"])
    tensors["model.embed_tokens.weight"] = F.pad(
        tensors["model.embed_tokens.weight"], (0, 0, 0, more)
    )
    save_file(tensors, directory / "model.safetensors")
    (directory / "tokenizer.model").symlink_to(source / "tokenizer.model")
    return directory


@pytest.fixture(scope="module")
def checkpoint(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_layer(shared_data, tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def gptq_pte(
    checkpoint: Path, calibration_text: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """One layer in 4 bits for XNNPACK."""
    options = ExportOptions(
        model=str(checkpoint),
        out=tmp_path_factory.mktemp("gptq") / "model.pte",
        calibration=calibration_text,
        calibration_tokens=16 * 256,
        delegate="xnnpack",
    )
    return export_model(options, Quiet()).out


@pytest.fixture(scope="module")
def float_pte(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer in float32 for the CPU delegate, and beside it an adapter with the name a."""
    directory = tmp_path_factory.mktemp("float")
    spec = open_model(str(checkpoint)).config
    options = ExportOptions(
        model=str(checkpoint),
        out=directory / "model.pte",
        scheme=Scheme("none"),
        adapters=(("a", str(save_adapter(directory / "a", spec, 1))),),
        delegate="cpu",
    )
    return export_model(options, Quiet()).out


@pytest.mark.check
def test_a_pte_is_measured_as_its_runtime_computes_it(
    cpp_build: Path, checkpoint: Path, stories_text: Path, gptq_pte: Path
) -> None:
    arguments = ("--against", checkpoint, "--text", stories_text, "--tokens", 200, "--json")
    result = run("eval", gptq_pte, *arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert 0.005 < figures["kl"] < 0.15 and 0.7 < figures["top1"] < 1
    assert figures["kl_error"] > 0 and figures["tokens"] == 200
    with torch.no_grad():
        ids = load_tokenizer(checkpoint).encode(stories_text.read_text())[:200]
        row = torch.tensor([1, *ids])
        logits = loaded(open_checkpoint(checkpoint)).logits(row[None, :-1])[0]
    expected = F.cross_entropy(logits, row[1:]).exp().item()
    assert figures["against_perplexity"] == pytest.approx(expected, rel=1e-4)
    assert figures["perplexity"] == pytest.approx(expected, rel=0.2)
    same = run("eval", checkpoint, *arguments)
    assert json.loads(same.stdout)["kl"] == 0 and json.loads(same.stdout)["top1"] == 1


def test_a_pte_alone_reads_with_its_own_tokenizer(
    cpp_build: Path, checkpoint: Path, float_pte: Path, stories_text: Path
) -> None:
    options = ("--text", stories_text, "--separator", "<|endoftext|>", "--tokens", 600, "--json")
    own, source = (
        json.loads(run("eval", model, *options).stdout) for model in (float_pte, checkpoint)
    )
    assert own["tokens"] == source["tokens"] == 600
    assert own["perplexity"] == pytest.approx(source["perplexity"], rel=1e-5)
    assert "float32 cache" in own["runs_with"] and source["runs_with"] == "PyTorch, float32"


@pytest.mark.parametrize("swapped", [False, *checked([True])])
def test_rotary_tables_are_of_the_files_length(
    swapped: bool, cpp_build: Path, checkpoint: Path, stories_text: Path, tmp_path: Path
) -> None:
    """Whichever of the two is the file, and however short the text is."""
    source = stretched(checkpoint, tmp_path, original=64, limit=512)
    options = ExportOptions(
        model=str(source), out=tmp_path / "model.pte", scheme=Scheme("none"), delegate="cpu"
    )
    file = export_model(options, Quiet()).out
    model, against = (source, file) if swapped else (file, source)
    figures = json.loads(
        run(
            *("eval", model, "--against", against, "--text", stories_text),
            *("--context", 100, "--tokens", 250, "--json"),
        ).stdout
    )
    assert abs(figures["kl"]) < 1e-6 and figures["top1"] == 1


def test_what_a_type_of_cache_costs_is_measured(
    cpp_build: Path, float_pte: Path, stories_text: Path
) -> None:
    """Against the same weights with a float32 cache: float16 rounds by 2^-11, int8 by 2^-8, and
    KL goes with the square: 64 times, if all else were equal."""
    model = float_pte
    kl = {}
    for cache in ("float32", "float16", "int8", "int8-int4", "int4"):
        result = run(
            "eval", model, "--kv-cache", cache, "--against", model, "--against-kv-cache",
            "float32", "--text", stories_text, "--tokens", 300, "--json",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        figures = json.loads(result.stdout)
        assert f"{cache} cache" in figures["runs_with"]
        assert "float32 cache" in figures["against_runs_with"]
        kl[cache] = figures["kl"]
    assert kl["float32"] == 0 and kl["float16"] < 1e-4
    assert 10 * kl["float16"] < kl["int8"] < 0.01
    assert 10 * kl["float16"] < kl["int8-int4"] < kl["int4"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"MODEL": "no-such-model"}, "Error: "),
        ({"MODEL": "a/no.pte"}, "Error: There is no file a/no.pte; check its path, or give a "),
        ({"--separator": ""}, "Error: --separator is empty; write the string between documents, "),
        (
            {"--against-kv-cache": "int8"},
            "Error: --against-kv-cache int8 has no effect without --against; leave it out.",
        ),
        (
            {"--against-adapter": "a"},
            "Error: --against-adapter a has no effect without --against; leave it out.",
        ),
        ({"--limit": "3"}, "Error: --limit 3 has no effect without --tasks; leave it out."),
        ({"--text": "no-such.txt"}, "Error: the text no-such.txt cannot be read (No such file"),
        ({"--against": "no-such-model"}, "Error: "),
        (
            {"--context": "513"},
            "Error: --context 513 is not possible; stories260K takes at most 512 tokens.",
        ),
        pytest.param(
            {"--against": "llama3"},
            "Error: stories260K has a vocabulary of 512 tokens but embedded has one of 4096; ",
            marks=pytest.mark.check,  # its tokenizer asks for the classes of all characters
        ),
        (
            {"--kv-cache": "int8"},
            "Error: {MODEL} is a checkpoint, for which --kv-cache int8 has no ",
        ),
        (
            {"--adapter": "a"},
            "Error: {MODEL} is a checkpoint, for which --adapter a has no effect; give a .pte ",
        ),
    ],
)
def test_a_request_that_cannot_be_met_exits_2_with_a_sentence(
    shared_data: Path, stories_text: Path, change: dict[str, str], sentence: str
) -> None:
    options = {"--text": str(stories_text), **change}
    model = options.pop("MODEL", str(shared_data / "stories260K"))
    result = run("eval", model, *(part for option in options.items() for part in option))
    assert result.exit_code == 2
    said = result.stderr.splitlines()[-1]  # on a slow machine lines before it say what runs
    assert said.startswith(sentence.replace("{MODEL}", model)) and result.stdout == ""


def test_another_vocabulary_is_refused(
    shared_data: Path, checkpoint: Path, stories_text: Path, tmp_path: Path
) -> None:
    other = one_layer(shared_data, tmp_path, 520)
    result = run("eval", checkpoint, "--text", stories_text, "--against", other)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.splitlines()[-1] == (
        f"Error: {checkpoint.name} has a vocabulary of 512 tokens but {other.name} has one of 520; "
        "--against needs a model with the same vocabulary."
    )


def test_another_tokenizer_is_refused(
    shared_data: Path, checkpoint: Path, stories_text: Path, tmp_path: Path
) -> None:
    other = one_layer(shared_data, tmp_path)
    (other / "tokenizer.model").unlink()
    (other / "tokenizer.json").write_text(json.dumps(byte_tokenizer()))
    arguments = ("eval", checkpoint, "--text", stories_text, "--tokens", 20, "--against", other)
    result = run(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.splitlines()[-1] == (
        f"Error: {checkpoint.name} and {other.name} make different tokens of the text; --against "
        "needs a model with the same tokenizer, or --tokenizer FILE for both."
    )
    tokenizer = checkpoint / "tokenizer.model"
    assert run(*arguments, "--tokenizer", tokenizer).exit_code == 0


def test_an_adapter_is_chosen_by_name(cpp_build: Path, float_pte: Path, tmp_path: Path) -> None:
    model, text = float_pte, tmp_path / "text"
    text.write_text("The adapter changes what the model says. " * 9)
    options = ("eval", model, "--text", text, "--against", model, "--json", "--adapter")
    same = json.loads(run(*options, "a", "--against-adapter", "a").stdout)
    other = json.loads(run(*options, "a").stdout)
    assert same["kl"] == 0 and other["kl"] > 0.01
    assert same["perplexity"] == other["perplexity"]
    unknown = run(*options, "b")
    assert unknown.exit_code == 2
    assert unknown.stderr.endswith("Error: there is no adapter b: the model has a\n")


def test_a_cache_that_a_pte_cannot_have_is_an_error(
    cpp_build: Path, gptq_pte: Path, stories_text: Path
) -> None:
    result = run("eval", gptq_pte, "--text", stories_text, "--kv-cache", "int8")
    assert result.exit_code == 2
    assert "--delegate cpu" in result.stderr


@pytest.mark.check
def test_the_table_has_a_line_for_every_row_and_group(
    shared_data: Path, calibration_text: Path
) -> None:
    rows = ("RTN, absmax / 7.5", "HQQ", "AWQ", "`gptq4`: the same + rotated inputs")
    only = [part for row in rows for part in ("--only", row)]
    result = run(
        "compare", shared_data / "stories260K", "--calibration", calibration_text, "--tokens", 600,
        "--calibration-tokens", 4096, *only,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    lines = [line.split(" | ") for line in result.stdout.splitlines() if line.startswith("| ")][1:]
    assert [(line[0], line[1]) for line in lines] == [
        (f"| {group}", row) for group in (32, 128) for row in rows
    ]
    kl = {line[1]: float(line[3].split(" ±")[0]) for line in lines[:4]}
    assert kl["`gptq4`: the same + rotated inputs"] < kl["AWQ"] < kl["RTN, absmax / 7.5"]
    weight_only = float(lines[0][5].split(" ±")[0])
    assert weight_only != kl["RTN, absmax / 7.5"]


def test_a_row_that_is_none_is_named() -> None:
    result = run("compare", "--only", "GPTZ")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: --only 'GPTZ' is not a row; the rows are: RTN, absmax")
