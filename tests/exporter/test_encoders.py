"""Models that embed texts: the whole way from a checkpoint to rows, beside transformers."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from support.encoder_models import (
    LONGEST,
    TEXTS,
    reference,
    save_bert,
    save_encoder,
    save_whole,
    write,
)
from support.encoders import CASES, DATA, WHOLE
from support.real_models import minilm
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer, BertModel

from devtools.profile import load_profile
from exporter.catalogue.encoders import DECODERS, ENCODERS
from exporter.checkpoint.encoder import open_encoder
from exporter.commands.cli import main
from exporter.embedding.pipeline import EmbeddingOptions, export_embedding
from exporter.errors import ExportError
from exporter.file.pte import read_report
from exporter.models.encoder import EmbeddingModel
from exporter.models.encoder_spec import EmbeddingSpec
from exporter.models.encoders import FAMILIES, encoder_family
from quant.commands.cli import main as quant
from quant.scheme import Scheme
from runtime import Embedder, RunnerError

Break = Callable[[Path], None]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BertModel]:
    directory = tmp_path_factory.mktemp("bert")
    return directory, save_bert(directory, "mean_tokens")


@pytest.fixture(scope="module")
def float_pte(bert: tuple[Path, BertModel], cpp_build: Path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("float") / "model.pte"
    export_embedding(EmbeddingOptions(bert[0], out, Scheme("none")))
    return out


def test_rows_are_those_of_transformers(float_pte: Path, bert: tuple[Path, BertModel]) -> None:
    """Several texts in a call: an empty one, one that is cut, one that spells a special token."""
    texts = [*TEXTS, *reversed(TEXTS)] * 3
    wanted = reference(bert[1], texts).numpy()
    with Embedder(float_pte, threads=2) as embedder:
        assert (embedder.width, embedder.max_seq_len) == (48, LONGEST)
        assert embedder.prompts == ("query", "plain")
        found = embedder.embed(texts)
        assert found.rows.dtype == np.float32 and found.rows.shape == wanted.shape
        spelled = [at for at, text in enumerate(texts) if "[SEP]" not in text]
        assert np.abs(found.rows - wanted)[spelled].max() < 1e-5
        assert found.cut == texts.count(TEXTS[4])
        alone = np.concatenate([embedder.encode([text]) for text in texts])
        assert np.array_equal(found.rows, alone)  # to the bit
        prompted = embedder.encode(["the cat"], prompt_name="query")
        assert np.array_equal(prompted, embedder.encode(["query: the cat"]))
        assert not np.array_equal(prompted, embedder.encode(["the cat"]))
        assert embedder.encode([]).shape == (0, 48)


def test_the_text_of_a_special_token_is_plain_text(float_pte: Path) -> None:
    with Embedder(float_pte) as embedder:
        one, other = embedder.encode(["a [SEP] cat", "a cat"])
        assert not np.array_equal(one, other)
        assert embedder.embed(["[SEP]"]).tokens > 3


def test_the_runner_prints_a_line_for_each_line(float_pte: Path, cpp_build: Path) -> None:
    lines = "\n".join(TEXTS) + "\n"
    command = [cpp_build / "runner", float_pte, "--embed", "--threads", "1"]
    outcome = subprocess.run(command, input=lines, capture_output=True, text=True)
    assert outcome.returncode == 0
    printed = [[float(number) for number in line.split()] for line in outcome.stdout.splitlines()]
    with Embedder(float_pte) as embedder:
        assert np.array_equal(np.array(printed, np.float32), embedder.encode(TEXTS))
    cut = "runner: 1 of the texts had more than 20 tokens, and was cut\n"
    assert outcome.stderr.endswith(f" texts of 54 tokens, rows of 48 numbers\n{cut}")
    quiet = subprocess.run([*command, "--quiet"], input=lines, capture_output=True, text=True)
    assert (quiet.stdout, quiet.stderr) == (outcome.stdout, cut)
    alone = subprocess.run([*command, "-p", TEXTS[0]], capture_output=True, text=True)
    assert alone.stdout == outcome.stdout.splitlines(keepends=True)[0]
    assert "runner: 1 text of " in alone.stderr


@pytest.mark.check
@pytest.mark.parametrize("delegate", ["cpu"])
def test_the_command_knows_an_encoder_and_stores_8_bits(
    delegate: str, bert: tuple[Path, BertModel], tmp_path: Path, cpp_build: Path
) -> None:
    out = tmp_path / "model.pte"
    result = CliRunner().invoke(main, [str(bert[0]), "--out", str(out), "--delegate", delegate])
    assert result.exit_code == 0, result.output
    assert "on average (200 held-out sentences)" in result.output
    report = read_report(out)
    assert report["quantization"]["scheme"] == "rtn8"
    assert report["model"]["task"] == "embedding" and report["model"]["pooling"] == "mean"
    assert 0.99 < report["quality"]["cosine_worst"] <= report["quality"]["cosine_mean"] <= 1.0001
    with Embedder(out) as embedder:
        cosines = F.cosine_similarity(
            torch.from_numpy(embedder.encode(TEXTS[:3])), reference(bert[1], list(TEXTS[:3]))
        )
        assert cosines.min() > 0.99


def test_commands_of_language_models_say_what_it_is(
    float_pte: Path, bert: tuple[Path, BertModel]
) -> None:
    pte, directory = str(float_pte), str(bert[0])
    sentence = f"Error: {pte} holds a model of embeddings, not a"
    for arguments in ([pte], [directory, "--against", pte]):
        result = CliRunner().invoke(quant, ["eval", *arguments, "--text", __file__])
        assert result.exit_code == 2 and sentence in result.stderr, result.output


@pytest.mark.check
def test_what_an_export_would_do(bert: tuple[Path, BertModel], tmp_path: Path) -> None:
    directory, json_file = str(bert[0]), tmp_path / "why.json"
    result = CliRunner().invoke(main, [directory, "--explain-json", str(json_file)])
    assert result.exit_code == 0, result.output
    assert "operators that cpu does not run (1 call runs the others):\n  none" in result.output
    explained = json.loads(json_file.read_text())
    assert explained["scheme"] == "rtn8" and explained["caches"] == []
    assert explained["delegation"]["calls"] == 1
    assert [size["least"] for size in explained["shapes"]["varying"]] == [1]
    with_out = CliRunner().invoke(main, [directory, "--explain", "--out", str(tmp_path / "m.pte")])
    assert with_out.exit_code == 2 and "--explain exports nothing" in with_out.stderr


@pytest.mark.check
def test_every_operator_has_a_line_of_the_model(
    bert: tuple[Path, BertModel], tmp_path: Path, cpp_build: Path
) -> None:
    """Of several texts in a call, whose pooling and positions are recorded apart."""
    out, etrecord, etdump = (tmp_path / name for name in ("m.pte", "m.etrecord", "run.etdp"))
    export_embedding(EmbeddingOptions(bert[0], out, Scheme("rtn8"), etrecord=etrecord))
    command = [cpp_build / "runner", out, "--embed", "--etdump", etdump]
    subprocess.run(command, input="the cat\na mat\n", text=True, check=True, capture_output=True)
    profile = load_profile(etdump, etrecord)
    (call,) = profile.calls
    assert call.seq_len == 8 and profile.coverage.events_resolved == profile.coverage.events
    files = {line.file for event in call.events for line in event.lines}
    assert files == {"exporter/models/encoder.py", "exporter/models/mlp.py"}


@pytest.mark.check
def test_the_first_row_as_it_is(tmp_path: Path, cpp_build: Path) -> None:
    """The pooling and the length are those of the model's files."""
    model = save_bert(tmp_path, "cls_token", normalize=False)
    out = tmp_path / "model.pte"
    export_embedding(EmbeddingOptions(tmp_path, out, Scheme("none"), max_seq_len=12))
    texts = list(TEXTS[:2])
    wanted = reference(model, texts, "cls_token", normalize=False).numpy()
    with Embedder(out) as embedder:
        assert embedder.max_seq_len == 12
        assert np.abs(embedder.encode(texts) - wanted).max() < 1e-5


@pytest.mark.check
def test_minilm(tmp_path: Path, cpp_build: Path) -> None:
    """Real weights: float32 as transformers, 8 bits close to it on sentences that nothing saw."""
    directory = minilm(tmp_path)
    out = tmp_path / "model.pte"
    texts = ["The cat sat on the mat.", "A feline rested on a rug.", "Markets fell sharply."]
    tokens, model = AutoTokenizer.from_pretrained(directory), AutoModel.from_pretrained(directory)
    with torch.no_grad():
        hidden = [model(**tokens(text, return_tensors="pt")).last_hidden_state for text in texts]
    wanted = F.normalize(torch.cat([rows.mean(1) for rows in hidden])).numpy()
    export_embedding(EmbeddingOptions(directory, out, Scheme("none")))
    with Embedder(out) as embedder:
        rows = embedder.encode(texts)
        assert np.abs(rows - wanted).max() < 1e-5
        assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.3
    quality = export_embedding(EmbeddingOptions(directory, out, Scheme("rtn8"))).quality
    assert quality is not None and quality.sentences == 200
    assert quality.cosine_worst >= 0.9965 and quality.cosine_mean >= 0.998


@pytest.mark.parametrize(("name", "case"), CASES)
def test_hidden_states_are_those_of_transformers(name: str, case: str, tmp_path: Path) -> None:
    """Also where the weights are those of a model with a head, below a name of their own."""
    theirs = save_encoder(name, case, tmp_path)
    checkpoint = open_encoder(tmp_path)
    model = EmbeddingModel(checkpoint.config, EmbeddingSpec("last", False)).eval()
    checkpoint.check(model)
    checkpoint.load_into(model, "")
    longest = checkpoint.config.max_seq_len
    model.setup_positions(longest)
    with torch.no_grad():
        for length in (1, 2, 30, longest):
            tokens = torch.randint(3, 50, (2, length))
            wanted = theirs.base_model(tokens).last_hidden_state
            assert (model.model(tokens) - wanted).abs().max() < 1e-5
            assert torch.equal(model(tokens), model.model(tokens)[:, -1])


@pytest.mark.check
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_model_is_one_call(name: str, tmp_path: Path, cpp_build: Path) -> None:
    """Pooling, what follows it, prompts and the tokens around a text, as its files have them."""
    embed = save_whole(name, tmp_path)
    out = tmp_path / "model.pte"
    export_embedding(EmbeddingOptions(tmp_path, out, Scheme("none")))
    texts = ["The cat sat on the mat.", "a", "Stock markets fell sharply, and so on. " * 9] * 3
    prompts = DATA[name].prompts
    with Embedder(out, threads=2) as embedder:
        assert embedder.prompts == tuple(prompts)
        rows = embedder.encode(texts)
        assert np.abs(rows - embed(texts, next(iter(prompts.values()), "")).numpy()).max() < 1e-5
        for prompt, text in prompts.items():
            asked = embedder.encode(texts, prompt_name=prompt)
            assert np.abs(asked - embed(texts, text).numpy()).max() < 1e-5
        assert np.array_equal(rows[1:2], embedder.encode(texts[1:2]))  # to the bit
    quality = export_embedding(EmbeddingOptions(tmp_path, out, Scheme("rtn8"))).quality
    assert quality is not None and quality.cosine_worst > 0.98


@pytest.mark.check
def test_gptq_is_closer_than_rounding(tmp_path: Path, cpp_build: Path) -> None:
    """Of blocks with a norm behind the sum."""
    save_bert(tmp_path)
    found = {}
    for scheme in ("rtn4", "gptq4"):
        out = tmp_path / f"{scheme}.pte"
        found[scheme] = export_embedding(EmbeddingOptions(tmp_path, out, Scheme(scheme))).quality
        assert read_report(out)["quantization"]["bits"] == 4
    rounded, solved = found["rtn4"], found["gptq4"]
    assert rounded is not None and solved is not None
    assert solved.cosine_mean > rounded.cosine_mean and solved.cosine_worst > 0.9


@pytest.mark.check
def test_a_hub_id_is_known_by_its_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpp_build: Path
) -> None:
    """From the hub's cache, without a network."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    repository = tmp_path / "models--some-org--some-bert"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    save_bert(snapshot, "mean_tokens")
    out = tmp_path / "model.pte"
    result = CliRunner().invoke(main, ["some-org/some-bert", "--out", str(out)])
    assert result.exit_code == 0, result.output
    model = read_report(out)["model"]
    assert (model["name"], model["pooling"]) == ("some-org/some-bert", "mean")


def config(**fields: object) -> Break:
    def change(directory: Path) -> None:
        path = directory / "config.json"
        write(path, {**json.loads(path.read_text()), **fields})

    return change


def file(name: str, content: object) -> Break:
    return lambda directory: write(directory / name, content)


def dense(**fields: object) -> Break:
    """A linear behind the pooling, whose weights are missing."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense"}
    modules = [{"type": f"st.models.{kind}", "path": path} for path, kind in kinds.items()]

    def change(directory: Path) -> None:
        write(directory / "modules.json", modules)
        sizes = {"in_features": 48, "out_features": 8, "activation_function": "a.Identity"}
        write(directory / "2_Dense" / "config.json", {**sizes, **fields})

    return change


REFUSALS: list[tuple[Break, str]] = [
    (config(position_embedding_type="relative_key"), "position_embedding_type 'relative_key'"),
    (config(num_attention_heads=5), "hidden_size 48 is not a multiple of num_attention_heads 5"),
    (config(hidden_act="mish"), "hidden_act 'mish' is not supported"),
    (config(num_hidden_layers=3), "missing: encoder.layer.2."),
    (file("modules.json", {"a": 1}), "is not a list of modules"),
    (file("modules.json", [{"type": "st.models.LSTM"}]), "has the modules LSTM; supported are"),
    (
        file("modules.json", [{"type": "st.models.Pooling"}] * 2),
        "has the modules Pooling, P",
    ),
    (dense(activation_function="torch.nn.Mish"), "the activation_function 'torch.nn.Mish'; supp"),
    (dense(in_features=7), "2_Dense has no weights"),
    (
        config(architectures=["BertForSequenceClassification"]),
        "which scores texts or pairs",
    ),
    (file("1_Pooling/config.json", {"pooling_mode_max_tokens": True}), "asks for max; supported"),
    (file("1_Pooling/config.json", {}), "asks for no pooling"),
    (file("1_Pooling/config.json", {"pooling_mode": ["mean", "max"]}), "asks for mean, max; supp"),
    (file("sentence_bert_config.json", {"max_seq_length": "x"}), "max_seq_length is 'x'"),
    (
        file("sentence_bert_config.json", {"tokenizer_args": {"truncation_side": "left"}}),
        "tokenizer_args is {'truncation_side': 'left'}, which is not supported",
    ),
    (
        file("sentence_bert_config.json", {"config_args": {"hidden_act": "relu"}}),
        "config_args is {'hidden_act': 'relu'}, which is not supported",
    ),
    (
        file("sentence_bert_config.json", {"transformer_task": "fill-mask"}),
        "transformer_task is 'fill-mask', which is not supported",
    ),
    (
        file("config_sentence_transformers.json", {"default_prompt_name": "query"}),
        "has prompts {} and default_prompt_name 'query'",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSALS)
def test_what_is_refused(change: Break, sentence: str, tmp_path: Path) -> None:
    save_bert(tmp_path, "mean_tokens")
    change(tmp_path)
    out = tmp_path / "model.pte"
    with pytest.raises(ExportError) as raised:
        export_embedding(EmbeddingOptions(tmp_path, out, Scheme("none")))
    assert sentence in str(raised.value) and not out.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (dict(delegate="xnnpack"), "xnnpack does not support encoders yet"),
        (dict(scheme=Scheme("awq4")), "--quant awq4 is not supported for encoders"),
        (dict(max_seq_len=2), "--max-seq-len 2 is not possible; it must be from 3 to 40"),
    ],
)
def test_options_that_are_refused(
    options: dict[str, object], sentence: str, bert: tuple[Path, BertModel], tmp_path: Path
) -> None:
    given: dict[str, object] = {"scheme": Scheme("none"), **options}
    with pytest.raises(ExportError, match=sentence):
        export_embedding(EmbeddingOptions(bert[0], tmp_path / "model.pte", **given))


def test_bad_use_of_an_embedder(float_pte: Path, cpp_build: Path, tmp_path: Path) -> None:
    with Embedder(float_pte) as embedder:
        with pytest.raises(RunnerError, match="is the string 'a', but must be a list of strings"):
            embedder.encode("a")
        with pytest.raises(RunnerError, match="no prompt 'other': it has query, plain"):
            embedder.encode(["a"], prompt_name="other")
    with pytest.raises(RunnerError, match="this Embedder is closed"):
        embedder.encode(["a"])
    generating = [cpp_build / "runner", float_pte, "-p", "Once"]
    outcome = subprocess.run(generating, capture_output=True, text=True)
    assert outcome.returncode == 2 and "embeds texts and generates none" in outcome.stderr
    damaged = bytearray(float_pte.read_bytes())
    at = damaged.find(b"THEM")
    damaged[at] ^= 1
    (tmp_path / "damaged.pte").write_bytes(damaged)
    with pytest.raises(RunnerError, match="is damaged in its thimble.embedding"):
        Embedder(tmp_path / "damaged.pte")


def test_what_is_known_as_an_encoder_has_a_family() -> None:
    known = [*ENCODERS, *DECODERS]
    families = [encoder_family({"model_type": name}) for name in known]
    assert [family and family.model_type for family in families] == known
    assert set(FAMILIES) == set(known) == set(DATA)
