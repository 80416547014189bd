"""Qualcomm: every chip's compile specs, and one sentence where its SDK is not."""

from pathlib import Path

import pytest
from executorch.backends.qualcomm.serialization.qc_schema import (
    QcomChipset,
    QnnExecuTorchBackendType,
    QnnExecuTorchHtpPrecision,
)
from executorch.backends.qualcomm.serialization.qc_schema_serialize import flatbuffer_to_option
from support.decoder_specs import SMALL
from support.small_models import random_model

from delegates import DelegateError
from delegates.qnn import LIMITS, lower
from delegates.qnn.lower import compile_specs, socs
from exporter.capture.program import capture


def test_every_chip_has_specs() -> None:
    assert {"SM8650", "SM8750", "SM8850"} < set(socs())
    for soc in socs():
        (spec,) = compile_specs(soc)
        options = flatbuffer_to_option(spec.value)
        assert options.soc_info.soc_model == QcomChipset[soc]
        assert options.backend_options.backend_type == QnnExecuTorchBackendType.kHtpBackend
        assert options.backend_options.htp_options.precision == QnnExecuTorchHtpPrecision.kHtpFp16


def test_an_unknown_chip() -> None:
    with pytest.raises(DelegateError, match="THIMBLE_QNN_SOC is 'A17', which ExecuTorch does not"):
        compile_specs("A17")


def test_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QNN_SDK_ROOT", raising=False)
    with pytest.raises(DelegateError) as refused:
        lower(capture(random_model(SMALL), 24, 1), {}, {}, with_etrecord=False)
    assert str(refused.value) == (
        "Qualcomm's AI Engine Direct SDK is not installed (QNN_SDK_ROOT is not a directory), but "
        "the qnn delegate needs its compiler. Get it from "
        "https://www.qualcomm.com/developer/software/qualcomm-ai-engine-direct-sdk, set "
        "QNN_SDK_ROOT to its directory and add its lib/x86_64-linux-clang to LD_LIBRARY_PATH."
    )


def test_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QNN_SDK_ROOT", str(tmp_path))
    LIMITS.check_weights(32, 1)
    with pytest.raises(DelegateError, match="export with --max-seq-len 1"):
        LIMITS.check_weights(32, 128)
    with pytest.raises(DelegateError, match="export with --quant none"):
        LIMITS.check_weights(4, 1)
