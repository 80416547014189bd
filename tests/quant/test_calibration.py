"""Text becomes windows: disjoint for calibrating and measuring, spread over the text."""

import pytest

from quant.errors import QuantError
from quant.measure.windows import (
    calibration_windows,
    default_calibration_tokens,
    evaluation_tokens,
    evaluation_windows,
)

TEXT = "".join(f"line {number:04d}\n" for number in range(1000))  # 10000 characters


def encode(text: str) -> list[int]:
    return [ord(character) for character in text]


def decode(ids: list[int]) -> str:
    return "".join(chr(i) for i in ids)


def test_held_out_text_is_never_calibrated_on() -> None:
    calibration = calibration_windows(TEXT, encode, tokens=10**6, window=100)
    evaluation = evaluation_windows(TEXT, encode, tokens=10**6, window=100)
    seen = "".join(decode(row) for row in calibration.tolist())
    held_out = "".join(decode(row) for row in evaluation.tolist())
    assert "line 0899" in seen and "line 0900" not in seen
    assert "line 0900" in held_out and "line 0899" not in held_out
    assert calibration.shape == (90, 100) and evaluation.shape == (10, 100)


def test_windows_begin_with_bos_where_there_is_one() -> None:
    windows = calibration_windows(TEXT, encode, tokens=300, window=100, bos_id=1)
    assert windows.shape == (3, 100)
    assert (windows[:, 0] == 1).all()
    assert (calibration_windows(TEXT, encode, tokens=300, window=100)[:, 0] != 1).all()


def test_few_windows_are_spread_over_the_text() -> None:
    windows = calibration_windows(TEXT, encode, tokens=10 * 50, window=50)
    assert [decode(row)[:9] for row in windows.tolist()] != ["line 0000"] * 10
    assert "line 0000" in decode(windows[0].tolist())
    assert "line 0899" in decode(windows[-1].tolist())


def test_tokens_round_up_to_whole_windows() -> None:
    assert len(calibration_windows(TEXT, encode, tokens=101, window=100)) == 2
    assert len(calibration_windows(TEXT, encode, tokens=1, window=100)) == 1


def test_a_text_too_short_says_what_it_has_and_needs() -> None:
    with pytest.raises(QuantError) as error:
        evaluation_windows("x" * 500, encode, tokens=1000, window=256, bos_id=1)
    assert str(error.value) == (
        "the evaluation part of the text is too short (50 of 255 tokens, which is one window): "
        "give a longer text."
    )
    with pytest.raises(QuantError, match=r"too short \(0 of 256 tokens"):
        calibration_windows("", encode, tokens=1000)


def test_a_window_too_short_to_predict_anything_is_refused() -> None:
    with pytest.raises(QuantError, match="window of 2 tokens is too short"):
        calibration_windows(TEXT, encode, tokens=10, window=2, bos_id=1)


def test_large_models_take_fewer_tokens_by_default() -> None:
    assert default_calibration_tokens(4_500_000) == 32768
    assert default_calibration_tokens(1_235_000_000) == 16384


def test_large_models_are_measured_on_fewer_tokens() -> None:
    assert [evaluation_tokens(weights) for weights in (499_999_999, 500_000_000)] == [2048, 1024]
