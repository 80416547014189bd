"""Times, prompts and texts that are written again: as transformers has them, and how printed."""

import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from support import hearing_models as models
from support.blocked_output import interrupt
from support.hearing import (
    RATE,
    features_of,
    run,
    segments_of,
    spoken,
    transcribe,
    words_of,
    write_wav,
)
from support.tiers import checked

pytest.importorskip("transformers")
Model = tuple[Path, Any]


def is_text(token: int) -> bool:
    return token < models.BYTES


@pytest.mark.parametrize("seconds", [6.5, *checked([1.3])])
@pytest.mark.parametrize("pitch", [500, 1200])
def test_segments_are_those_of_transformers(
    hearing_model: Model, cpp_build: Path, tmp_path: Path, seconds: float, pitch: float
) -> None:
    pte, model = hearing_model
    samples = spoken(seconds, pitch)
    sound = write_wav(tmp_path / "x.wav", samples)
    got = transcribe(cpp_build, pte, "--audio", sound, "--timestamps", "--language", "en")
    # transformers goes on behind the end of a sound that is shorter than a window.
    most = models.WINDOW if seconds < models.WINDOW else 2 * seconds
    segments = segments_of(model, samples, models.WINDOW, language="en")
    expected = [segment for segment in segments if segment["start"] < most]
    assert len(expected) > 1
    for segment, right in zip(got["segments"], expected, strict=True):
        assert [*filter(is_text, segment["tokens"])] == [*filter(is_text, right["tokens"])]
        times = min(right["start"], seconds), min(right["end"], seconds)
        assert (segment["start"], segment["end"]) == pytest.approx(times)


@pytest.mark.parametrize("seconds", [6.5, *checked([1.31])])
@pytest.mark.parametrize("language", ["en", "de"])
def test_words_are_those_of_transformers(
    hearing_model: Model, cpp_build: Path, tmp_path: Path, seconds: float, language: str
) -> None:
    """When each was spoken, by the attention of the same heads."""
    pte, model = hearing_model
    samples = spoken(seconds, 500)
    sound = write_wav(tmp_path / "x.wav", samples)
    asked = ["--audio", sound, "--timestamps", "word", "--language", language]
    got = transcribe(cpp_build, pte, *asked)
    segments = segments_of(
        model, samples, models.WINDOW, language=language, return_token_timestamps=True
    )
    most = models.WINDOW if seconds < models.WINDOW else 2 * seconds
    segments = [segment for segment in segments if segment["start"] < most]
    name = {"en": "english", "de": "german"}[language]
    right = words_of(segments, pte.parent / "tokenizer.json", models.END, name)
    words = [word for segment in got["segments"] for word in segment["words"]]
    assert [word["word"] for word in words] == [word for *_, word in right] and len(right) > 1
    for word, (begin, end, _) in zip(words, right, strict=True):
        times = min(begin, seconds), min(end, seconds)
        assert (word["start"], word["end"]) == pytest.approx(times, abs=0.006)
    plain = transcribe(cpp_build, pte, *asked[:2], "--timestamps", *asked[4:])
    assert [one["tokens"] for one in plain["segments"]] == [
        one["tokens"] for one in got["segments"]
    ]
    lines = run(cpp_build, pte, *asked, "--no-fallback", "--format", "srt").stdout.split("\n\n")
    assert len(lines) == len(words) + 1 and lines[-2].startswith(f"{len(words)}\n")


def test_a_prompt_precedes_each_window(
    hearing_model: Model, cpp_build: Path, tmp_path: Path
) -> None:
    pte, model = hearing_model
    samples = spoken(1.3, 500)
    sound = write_wav(tmp_path / "x.wav", samples)
    tokenizer = tokenizers.Tokenizer.from_file(str(pte.parent / "tokenizer.json"))
    arguments = ["--audio", sound, "--language", "en"]
    given = features_of(samples, models.WINDOW)
    for text in ("Thimble", "a text that is longer than half of what the model has room for"):
        tokens = tokenizer.encode(f" {text}", add_special_tokens=False).ids[-(30 // 2 - 1) :]
        prompt = torch.tensor([models.PREVIOUS, *tokens])
        ((*rest,),) = model.generate(
            given, prompt_ids=prompt, language="en", return_timestamps=True, do_sample=False
        ).tolist()
        got = transcribe(cpp_build, pte, *arguments, "-p", f" {text} ", "--timestamps")
        assert got["segments"][0]["tokens"][:3] == rest[:3] and len(rest) > 3
    literal = transcribe(cpp_build, pte, *arguments, "-p", "<|de|>")
    assert literal["text"] != transcribe(cpp_build, pte, *arguments)["text"]


def test_unlikely_text_is_written_again(
    hearing_model: Model, cpp_build: Path, tmp_path: Path
) -> None:
    """Which a random model's is, at each temperature; one that is given stays."""
    pte, _ = hearing_model
    sound = ["--audio", write_wav(tmp_path / "x.wav", spoken(1.3, 500)), "--quiet"]

    def segments(*arguments: str) -> Any:
        return json.loads(run(cpp_build, pte, *sound, "--format", "json", *arguments).stdout)

    first = segments("--no-fallback")["segments"][0]
    assert first["temperature"] == 0 and first["avg_logprob"] < -1
    again = segments()
    assert again["segments"][0]["temperature"] == 1 and again["text"] != first["text"]
    assert segments() == again != segments("--seed", "7")
    assert segments("--temperature", "0.4")["segments"][0]["temperature"] == 0.4


def test_scores(hearing_model: Model, cpp_build: Path, tmp_path: Path) -> None:
    pte, _ = hearing_model
    for pitch in (400, 500, 900, 1200):
        sound = write_wav(tmp_path / "x.wav", spoken(1.3, pitch))
        (segment,) = transcribe(cpp_build, pte, "--audio", sound)["segments"]
        text = segment["text"].strip(" \t\r\n").encode()
        ratio = len(text) / len(zlib.compress(text))
        assert segment["compression_ratio"] == pytest.approx(ratio, rel=0.03)
        assert 0 < segment["no_speech_prob"] < 1 and segment["avg_logprob"] < 0


def test_subtitles(hearing_model: Model, cpp_build: Path, tmp_path: Path) -> None:
    pte, _ = hearing_model
    sound = ["--audio", write_wav(tmp_path / "x.wav", spoken(6.5, 500)), "--no-fallback"]
    segments = transcribe(cpp_build, pte, *sound, "--timestamps")["segments"]
    srt = run(cpp_build, pte, *sound, "--format", "srt").stdout
    vtt = run(cpp_build, pte, *sound, "--format", "vtt").stdout
    lines = run(cpp_build, pte, *sound, "--timestamps").stdout
    starts = [f"00:00:0{segment['start']:.3f}" for segment in segments]
    assert [line.split(" ")[0][1:] for line in lines.splitlines() if " --> " in line] == starts
    assert vtt.startswith("WEBVTT\n\n") and re.findall(r"^(\S+) -->", vtt, re.M) == starts
    numbered = re.findall(r"^(\d+)\n(\S+) -->", srt, re.M)
    expected = [(str(i), start.replace(".", ",")) for i, start in enumerate(starts, 1)]
    assert numbered == expected
    empty = write_wav(tmp_path / "zero.wav", np.zeros(RATE, "<f4"))
    assert run(cpp_build, pte, "--audio", empty, "--format", "vtt").stdout == "WEBVTT\n\n"
    assert run(cpp_build, pte, "--audio", empty, "--format", "srt").stdout == ""


def test_an_interrupted_transcription_says_so(
    hearing_model: Model, cpp_build: Path, tmp_path: Path
) -> None:
    sound = write_wav(tmp_path / "x.wav", spoken(6.5, 500))
    result = interrupt([cpp_build / "runner", hearing_model[0], "--audio", sound, "--no-fallback"])
    assert result.returncode == 130
    assert "runner: interrupted: the text ends before the sound does\n" in result.stderr.decode()
