"""A decoder in two parts beside `forward`, as stock ExecuTorch's MultimodalRunner calls them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.exported import Quiet

from delegates import DelegateError
from exporter.file.pte import REPORT_BYTES
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme
from runtime import Program, Runner

PROMPT = "Once upon a time"
TOKENS = [1, 403, 407, 261, 378, 120, 9]


def export(shared_data: Path, out: Path, delegate: str, scheme: str, parts: bool) -> Path:
    options = ExportOptions(
        model=str(shared_data / "stories260K"),
        out=out,
        scheme=Scheme(scheme),
        max_context_len=64,
        max_seq_len=16,
        delegate=delegate,
        parts=parts,
    )
    return export_model(options, Quiet()).out


@pytest.mark.check
def test_parts_on_the_cpu_delegate_share_weights_and_caches(
    shared_data: Path, tmp_path: Path, cpp_build: Path
) -> None:
    whole = export(shared_data, tmp_path / "whole.pte", "cpu", "rtn4", False)
    parts = export(shared_data, tmp_path / "parts.pte", "cpu", "rtn4", True)
    assert parts.stat().st_size < 1.1 * whole.stat().st_size + REPORT_BYTES
    with Program(parts, threads=1) as forward:
        assert forward.methods == ("forward", "token_embedding", "text_decoder")
        embed, decode = forward.method("token_embedding"), forward.method("text_decoder")

        def call(method: Program, rows: Any, start: int) -> Any:
            return method(rows, np.array([start]))

        tokens = np.array([TOKENS])
        want = call(forward, tokens, 0)
        np.testing.assert_array_equal(call(decode, embed(tokens), 0), want)
        # The positions that one method has read are in the other's cache.
        call(decode, embed(tokens[:, :4]), 0)
        np.testing.assert_array_equal(call(forward, tokens[:, 4:], 4), want)
    with Runner(whole, threads=1) as one, Runner(parts, threads=1) as other:
        assert list(one.generate(PROMPT, 12)) == list(other.generate(PROMPT, 12))


@pytest.mark.check
def test_stock_runs_the_parts(shared_data: Path, tmp_path: Path) -> None:
    """In ExecuTorch's own runner of several kinds of inputs, text alone says what it says in the
    runner of text."""
    import executorch.kernels.quantized  # noqa: F401  (registers its kernels)
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from executorch.extension.llm.runner import (
        GenerationConfig,
        MultimodalRunner,
        TextLLMRunner,
        make_text_input,
    )

    parts = export(shared_data, tmp_path / "parts.pte", "xnnpack", "none", True)
    tokenizer = str(shared_data / "stories260K" / "tokenizer.model")
    config = GenerationConfig(max_new_tokens=20, temperature=0.0, echo=False, num_bos=1)
    whole: list[str] = []
    TextLLMRunner(str(parts), tokenizer).generate(PROMPT, config, token_callback=whole.append)
    told: list[str] = []
    runner = MultimodalRunner(str(parts), tokenizer)
    runner.generate([make_text_input(PROMPT)], config, token_callback=told.append)
    assert len(told) == 20 and told == whole


def test_other_delegates_refuse_parts(shared_data: Path, tmp_path: Path) -> None:
    with pytest.raises(DelegateError, match="coreml writes language models of one method"):
        export(shared_data, tmp_path / "no.pte", "coreml", "none", True)
    assert not (tmp_path / "no.pte").exists()
