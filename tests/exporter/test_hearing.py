"""Models that hear: the tokens and texts of transformers, from a file of sound."""

import json
import os
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support import hearing_models as models
from support.exported import Quiet
from support.hearing import (
    RATE,
    features_of,
    run,
    segments_of,
    spoken,
    text_tokens,
    transcribe,
    words_of,
    write_wav,
)
from support.real_models import recordings, whisper
from support.tiers import checked, soaked

from exporter.commands.cli import main
from exporter.errors import ExportError
from exporter.hearing.calibration import recorded, speech
from exporter.hearing.log_mel import LogMelSettings
from exporter.hearing.log_mel import features_of as our_features
from exporter.hearing.pipeline import HearingOptions, export_hearing
from exporter.module.pipeline import ModuleResult
from quant.scheme import Scheme

FLOATS = Scheme("none")

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> tuple[Path, Any]:
    directory = tmp_path_factory.mktemp("whisper")
    model = models.write_whisper(directory)
    result = export_hearing(HearingOptions(directory, directory / "w.pte", FLOATS), Quiet())
    one_call(result)
    return result.out, model


def one_call(result: ModuleResult) -> None:
    for name, method in result.methods.items():
        assert method.delegation.calls == 1, name
        assert set(method.delegation.left) <= {"embedding", "expand_copy"}, name


@pytest.mark.parametrize("pitch", [500, 1200])
@pytest.mark.parametrize(
    ("language", "task"), [(None, "transcribe"), ("de", "transcribe"), ("en", "translate")]
)
def test_tokens_are_those_of_transformers(
    exported: tuple[Path, Any],
    cpp_build: Path,
    tmp_path: Path,
    pitch: float,
    language: str | None,
    task: str,
) -> None:
    pte, model = exported
    samples = spoken(1.3, pitch)
    given = features_of(samples, models.WINDOW)
    expected = model.generate(given, language=language, task=task, do_sample=False)
    arguments = ["--task", task, *(() if language is None else ("--language", language))]
    got = transcribe(cpp_build, pte, "--audio", write_wav(tmp_path / "x.wav", samples), *arguments)
    (segment,) = got["segments"]
    assert segment["tokens"] == text_tokens(expected, models.SPECIALS) and segment["tokens"]
    codes = {models.ENGLISH: "en", models.GERMAN: "de"}
    detected = codes[model.detect_language(given).item()]
    assert got["language"] == (language or detected)
    assert (segment["start"], segment["end"]) == (0, 1.3) and got["duration"] == 1.3


def test_long_sound_is_cut_where_it_is_quiet(
    exported: tuple[Path, Any], cpp_build: Path, tmp_path: Path
) -> None:
    pte, _ = exported
    pause = np.zeros(RATE // 2, "<f4")
    samples = np.concatenate([spoken(1.4, 500), pause, spoken(1.2, 900), pause, spoken(0.9, 600)])
    got = transcribe(cpp_build, pte, "--audio", write_wav(tmp_path / "x.wav", samples))
    ends = [segment["end"] for segment in got["segments"]]
    assert [segment["start"] for segment in got["segments"]] == [0, *ends[:-1]]
    assert 1.4 < ends[0] < 1.9 and 3.1 < ends[1] < 3.6 and ends[2] == 4.5 and len(ends) == 3
    assert "".join(segment["text"] for segment in got["segments"]).strip() == got["text"].strip()


def test_silence_has_no_text(exported: tuple[Path, Any], cpp_build: Path, tmp_path: Path) -> None:
    """Alone, and behind what is louder by more than the model is given."""
    pte, _ = exported
    for before in (0, 1.4):
        samples = np.concatenate([spoken(before, 500), np.zeros(5 * RATE, "<f4")])
        got = transcribe(cpp_build, pte, "--audio", write_wav(tmp_path / "x.wav", samples))
        assert [segment["start"] for segment in got["segments"]] == [0] * (before > 0)


def test_several_sounds_and_standard_input(
    exported: tuple[Path, Any], cpp_build: Path, tmp_path: Path
) -> None:
    pte, _ = exported
    paths = [write_wav(tmp_path / f"{pitch}.wav", spoken(1, pitch)) for pitch in (500, 1200)]
    both = run(cpp_build, pte, "--audio", paths[0], "--audio", paths[1])
    assert both.returncode == 0 and "1.0 s of sound" in both.stderr
    piped = subprocess.run(
        [cpp_build / "runner", pte, "--audio", "-"],
        input=paths[0].read_bytes(),
        capture_output=True,
    )
    alone = run(cpp_build, pte, "--audio", paths[1])
    assert piped.stdout.decode() + alone.stdout == both.stdout


def test_what_the_runner_refuses(
    exported: tuple[Path, Any], cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path
) -> None:
    pte, _ = exported
    sound = write_wav(tmp_path / "x.wav", spoken(1, 500))
    odd = spoken(1, 500)
    odd[700] = np.nan
    (tmp_path / "text.wav").write_text("RIFF and no more")
    (tmp_path / "empty.wav").write_bytes(b"")
    os.mkfifo(tmp_path / "fifo")
    refused: dict[str, tuple[Path, list[str | Path]]] = {
        "does not know the language 'xx': it knows en, de": (pte, [sound, "--language", "xx"]),
        "--timestamps is 'no', but must be segment or word": (pte, [sound, "--timestamps=no"]),
        "--task is 'sing', but must be transcribe or translate": (pte, [sound, "--task", "sing"]),
        "--format is 'ass', but must be text, srt, vtt or json": (pte, [sound, "--format", "ass"]),
        "samples that are not finite": (pte, [write_wav(tmp_path / "nan.wav", odd)]),
        "text.wav is not a WAV file": (pte, [tmp_path / "text.wav"]),
        "empty.wav is empty": (pte, [tmp_path / "empty.wav"]),
        "is a directory: name a file of sound": (pte, [tmp_path]),
        "no.wav: No such file": (pte, [tmp_path / "no.wav"]),
        "--audio is for a model that hears": (pte, [sound, "--chat"]),
        "--format srt is for one sound": (pte, [sound, "--audio", sound, "--format", "srt"]),
        "text.wav is not a WAV": (pte, [sound, "--audio", tmp_path / "text.wav"]),
        "--audio - is standard input, which is read once": (pte, ["-", "--audio", "-"]),
        "--temperature must be 0 to 1": (pte, [sound, "--temperature", "2"]),
        "fifo is not a file: name one": (pte, [tmp_path / "fifo"]),
        "is a language model, which takes a prompt": (stories_cpu_pte, [sound]),
    }
    for sentence, (file, arguments) in refused.items():
        result = run(cpp_build, file, "--audio", *arguments)
        assert result.returncode == 2 and sentence in result.stderr, (sentence, result.stderr)
        assert result.stdout == ""
    for arguments, sentence in (
        (["-p", "a"], "is a model that hears, not of language: give it sound"),
        (["-p", "a", "--timestamps"], "--no-fallback and --raw have no effect without"),
    ):
        result = run(cpp_build, pte, *arguments)
        assert result.returncode == 2 and sentence in result.stderr


@pytest.mark.parametrize(
    ("work", "taken"),
    [
        (
            "--audio",
            {"--prompt", "--prompt-file", "--seed", "--temperature", "--language", "--task"}
            | {"--format", "--timestamps", "--no-fallback", "--raw"},
        ),
        ("--embed", {"--prompt", "--prompt-file", "--prompt-name"}),
        ("--input", {"--json", "--prompt", "--prompt-file"}),
    ],
)
def test_each_option_acts_or_is_refused(
    cpp_build: Path, tmp_path: Path, work: str, taken: set[str]
) -> None:
    """All that --help lists: what a work does not read has no effect, which is an error."""
    values = {
        **{"--kv-cache": "int8", "--logit-bias": "5=1", "--schema-unsupported": "relax"},
        **{"--prompt-file": os.devnull, "--json-schema-file": os.devnull, "--json-schema": "{}"},
        **{"--grammar-file": os.devnull, "--task": "transcribe", "--format": "text"},
        **{"--timestamps": "word"},
        **{name: str(tmp_path / "out") for name in ("--etdump", "--json", "--session")},
    }
    help = subprocess.run([cpp_build / "runner", "--help"], capture_output=True, text=True).stdout
    lines = [line for line in help.splitlines() if re.match(r"  (-\w, )?--\w", line)]
    listed = dict(re.findall(r"(--[a-z-]+\w)(?: (\S+))?", "\n".join(lines)))
    of_all = {"--threads", "--huge-pages", "--etdump", "--quiet", "--verify"}
    of_all.add("--require-signature")
    works = {"--chat", "--embed", "--audio", "--input", "--output", "--method"}
    assert len(listed) > 45 and {"--stop", "--json-object", "--min-p"} < listed.keys()
    alone = ["--input", "x.npy"] if work == "--input" else [work, *["x.wav"] * (work == "--audio")]
    for name, value in listed.items():
        if name in works | {"--help", "--version"}:
            continue
        given = [name, *([values.get(name, "1")] if value else [])]
        told = run(cpp_build, Path("no.pte"), *alone, *given).stderr
        acts = name in taken | of_all
        assert ("has no effect with" in told or "have no effect" in told) != acts, (name, told)


@pytest.mark.check
def test_a_model_of_one_language(cpp_build: Path, tmp_path: Path) -> None:
    """From the command line; it is refused what only others do."""
    model = models.write_whisper(tmp_path, languages=False, aligned=False, decoder_layers=1)
    pte = tmp_path / "w.pte"
    command = [str(tmp_path), "--out", str(pte), "--quant", "none"]
    outcome = CliRunner().invoke(main, command)
    assert outcome.exit_code == 0, outcome.output
    assert "encoder: cpu runs" in outcome.output and "in 1 call" in outcome.output
    samples = spoken(2, 700)
    got = transcribe(cpp_build, pte, "--audio", write_wav(tmp_path / "x.wav", samples))
    expected = model.generate(features_of(samples, models.WINDOW), do_sample=False)
    assert got["segments"][0]["tokens"] == text_tokens(expected, models.SPECIALS)
    assert got["language"] == "en"
    # Its times are forbidden, and with timestamps they come first.
    timed = transcribe(cpp_build, pte, "--audio", tmp_path / "x.wav", "--timestamps")
    assert timed["segments"] == []
    for arguments in (
        *(["--language", "de"], ["--task", "translate"]),
        ["--timestamps", "word"],  # as files that were written before there were such heads
    ):
        result = run(cpp_build, pte, "--audio", tmp_path / "x.wav", *arguments)
        assert result.returncode == 2 and "the model" in result.stderr


def test_what_the_export_refuses(tmp_path: Path) -> None:
    models.write_whisper(tmp_path)
    out = tmp_path / "w.pte"
    for arguments, sentence in {
        ("--quant", "int8"): "scheme 'int8' is not supported",
        ("--quant", "awq4"): "--quant awq4 is not supported for models that hear; use one of none",
        ("--group-size", "64"): "group size 64 has no effect with one scale a row",
        ("--delegate", "coreml"): "coreml does not support models that hear yet",
        ("--delegate", "xnnpack", "--quant", "rtn4"): "xnnpack takes a model that hears with",
        ("--calibration", str(tmp_path)): "has no effect with rtn8, which does not calibrate",
        ("--bits", "5"): "--bits has no effect on a model that hears",
        ("--explain",): "--explain does not support models that hear yet",
    }.items():
        outcome = CliRunner().invoke(main, [str(tmp_path), "--out", str(out), *arguments])
        assert outcome.exit_code == 2 and sentence in outcome.output, outcome.output
    changes: list[tuple[str, str, Any, str]] = [
        ("config.json", "activation_function", "relu", "activation_function 'relu' is not"),
        ("config.json", "decoder_attention_heads", 5, "48 is not a multiple of decoder_att"),
        ("config.json", "encoder_layers", 3, "missing"),
        ("preprocessor_config.json", "feature_size", 128, "windows of 128 features"),
        ("generation_config.json", "suppress_tokens", [10**6], "names token 1000000"),
        ("generation_config.json", "no_timestamps_token_id", None, "must be one token id"),
        ("generation_config.json", "alignment_heads", [[0, 3]], "pairs of a layer, below 3, and a"),
        ("generation_config.json", "lang_to_id", [1], "does not map names to token ids"),
    ]
    for name, field, value, sentence in changes:
        path = tmp_path / name
        before = path.read_text()
        path.write_text(json.dumps({**json.loads(before), field: value}))
        with pytest.raises(ExportError, match=sentence):
            export_hearing(HearingOptions(tmp_path, out), Quiet())
        path.write_text(before)
    (tmp_path / "generation_config.json").unlink()
    with pytest.raises(ExportError, match="has no generation_config.json"):
        export_hearing(HearingOptions(tmp_path, out), Quiet())
    assert not out.exists()


@pytest.mark.check
@pytest.mark.parametrize("name", [*soaked(["rtn8"]), "gptq4"])
def test_integers(name: str, cpp_build: Path, tmp_path: Path) -> None:
    """The file computes what the model of integers does, in one call a method, and is smaller."""
    model = models.write_whisper(
        tmp_path, d_model=128, encoder_ffn_dim=256, decoder_ffn_dim=256, decoder_attention_heads=4
    )
    scheme = Scheme(name)
    result = export_hearing(HearingOptions(tmp_path, tmp_path / "w.pte", scheme), Quiet())
    one_call(result)
    for method in result.methods.values():
        assert method.agreement is not None and method.agreement.error < method.agreement.tolerance
    assert result.report["quantization"]["scheme"] == name
    assert result.size < 0.6 * sum(4 * one.numel() for one in model.parameters())
    sound = write_wav(tmp_path / "x.wav", spoken(1.3, 500))
    got = transcribe(cpp_build, result.out, "--audio", sound)
    assert got["segments"][0]["tokens"]


def test_sound_of_calibration_has_the_features_of_the_extractor() -> None:
    settings = LogMelSettings(RATE, 400, 160, 80, models.WINDOW * RATE)
    samples = speech(settings, 0)
    assert np.abs(samples).max() < 1 and len(samples) == settings.n_samples
    assert (samples != speech(settings, 1)).any()
    expected = features_of(samples.astype("f4"), models.WINDOW)[0]
    assert np.abs(our_features(samples, settings) - expected.numpy()).max() < 1e-3


def test_recordings_of_calibration(cpp_build: Path, tmp_path: Path) -> None:
    """Each is cut into windows; the last one is followed by silence."""
    settings = LogMelSettings(RATE, 400, 160, 80, models.WINDOW * RATE)
    with pytest.raises(ExportError, match="is not a directory with recordings"):
        recorded(tmp_path, settings)
    samples = spoken(3, 500)
    write_wav(tmp_path / "a.wav", samples)
    in_three = (samples.astype("f8") * 2**23).astype("<i4").view("u1").reshape(-1, 4)[:, :3]
    twice = np.repeat(in_three, 2, axis=0).tobytes()  # two channels
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 2, RATE, 6 * RATE, 6, 24)
    chunks = b"WAVE" + form + struct.pack("<4sI", b"data", len(twice)) + twice
    (tmp_path / "b.WAV").write_bytes(struct.pack("<4sI", b"RIFF", len(chunks)) + chunks)
    windows = recorded(tmp_path, settings)
    padded = np.pad(samples, (0, RATE))
    for window, right in zip(windows, [*np.split(padded, 2), *np.split(padded, 2)], strict=True):
        assert np.abs(window - right).max() < 1e-6
    tone = np.sin(2 * np.pi * 440 * np.arange(2 * 48000) / 48000).astype("<f4")
    loud = (
        write_wav(tmp_path / "a.wav", tone)
        .read_bytes()
        .replace(struct.pack("<I", RATE), struct.pack("<I", 48000), 1)
    )
    (tmp_path / "a.wav").write_bytes(loud)
    assert np.abs(recorded(tmp_path, settings)[0] - tone[::3]).max() < 1e-3
    (tmp_path / "c.wav").write_text("no sound")
    with pytest.raises(ExportError, match="c.wav is not a WAV file"):
        recorded(tmp_path, settings)


def words_apart(one: list[str], other: list[str]) -> int:
    """The fewest words to change, add or leave out."""
    row = list(range(len(other) + 1))
    for at, word in enumerate(one, start=1):
        diagonal, row[0] = row[0], at
        for place, same in enumerate(other, start=1):
            fewest = min(row[place] + 1, row[place - 1] + 1, diagonal + (word != same))
            diagonal, row[place] = row[place], fewest
    return row[-1]


@pytest.mark.soak
def test_whisper_tiny_in_8_bits(cpp_build: Path, tmp_path: Path) -> None:
    """Of real speech, at most 1% of the words are others than in float."""
    whisper(tmp_path)
    texts = {}
    for name in ("none", "rtn8"):
        options = HearingOptions(tmp_path / "tiny.en", tmp_path / f"{name}.pte", Scheme(name))
        pte = export_hearing(options, Quiet()).out
        files = recordings(tmp_path)
        heard = [transcribe(cpp_build, pte, "--audio", file)["text"] for file in files]
        texts[name] = " ".join(heard).split()
    apart = words_apart(texts["none"], texts["rtn8"])
    assert len(texts["none"]) > 100 and apart <= 0.01 * len(texts["none"])
    assert (tmp_path / "rtn8.pte").stat().st_size < 45e6


@pytest.mark.parametrize("recording", [*soaked([0]), *checked([1])], ids=["44 s", "10 s"])
def test_whisper_tiny(recording: int, cpp_build: Path, tmp_path: Path) -> None:
    """Real weights on real speech: token by token as transformers, of sound of up to 30 s."""
    model = whisper(tmp_path)
    options = HearingOptions(tmp_path / "tiny.en", tmp_path / "w.pte", FLOATS)
    result = export_hearing(options, Quiet())
    one_call(result)
    file = recordings(tmp_path)[recording]
    command: list[str | Path] = [cpp_build / "sound_cli", "samples", file, str(RATE)]
    samples = np.frombuffer(subprocess.run(command, capture_output=True).stdout, "<f4")
    noise = np.random.default_rng(0).normal(0, 0.01, 9 * RATE).astype("<f4")
    quiet = transcribe(cpp_build, result.out, "--audio", write_wav(tmp_path / "noise.wav", noise))
    assert quiet["text"] == ""
    for part in (samples[: 30 * RATE], samples[: 2 * RATE]):
        path = write_wav(tmp_path / "x.wav", part)
        got = transcribe(cpp_build, result.out, "--audio", path)
        expected = model.generate(features_of(part, 30), do_sample=False)
        assert got["segments"][0]["tokens"] == text_tokens(expected, range(50256, 50363))
    whole = transcribe(cpp_build, result.out, "--audio", file, "--timestamps", "word")
    right = segments_of(model, samples, 30, return_token_timestamps=True)
    words = words_of(right, tmp_path / "tiny.en" / "tokenizer.json", 50256, "english")
    spoken_words = [word for segment in whole["segments"] for word in segment["words"]]
    for word, (begin, end, text) in zip(spoken_words, words, strict=True):
        assert word["word"] == text
        assert (word["start"], word["end"]) == pytest.approx((begin, end), abs=0.006)
    assert [(one["start"], one["end"]) for one in whole["segments"]] == [
        (one["start"], one["end"]) for one in right
    ]
    said = [[token for token in one["tokens"] if token < 50256] for one in right]
    assert [
        [token for token in one["tokens"] if token < 50256] for one in whole["segments"]
    ] == said
