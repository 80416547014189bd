"""Where the disk fails, or the process is killed: what is cached stays sound; the work goes on."""

from pathlib import Path

import pytest
import torch
from support.fault_injection import Faults

from quant.cache.store import Cache

STORED = 4  # results, of which each is written and renamed
SAID = "cannot store more ({}). The run continues; after an interruption, layers that are not"


@pytest.mark.check
@pytest.mark.parametrize("kills", [False, True], ids=["fails", "is killed"])
def test_every_call_of_the_cache(tmp_path: Path, kills: bool) -> None:
    folder = tmp_path / "cache"
    old = {"weight": torch.arange(9.0)}
    Cache(folder).store("old", old, "layer")
    faults = Faults.build(folder, tmp_path / "faults.so")
    cases = [
        (call, str(n), str(int(kills)))
        for call in ("write", "rename")
        for n in range(1, STORED + 1)
    ]
    results = faults.forked("cached_layers.py", cases)
    assert len(results) == len(cases)
    for (call, n, _), (status, _, said) in zip(cases, results, strict=True):
        assert status == (-9 if kills else 0), (call, n)
        if not kills:
            reason = "No space left on device" if call == "write" else "Input/output error"
            assert SAID.format(reason) in said and said.count("\n") == 0
    cache = Cache(folder)
    found = {path.suffix for path in (folder / "layers").iterdir()}
    assert found == ({".safetensors", ".tmp"} if kills else {".safetensors"})
    assert all(entry.sound for entry in cache.entries()) and len(cache.entries()) == STORED
    kept = cache.load("old")
    assert kept is not None and torch.equal(kept["weight"], old["weight"])
    ((status, left, said),) = faults.forked("cached_layers.py", [("write", "9", "0")])
    assert (status, left, said) == (0, 9 - STORED, "")
    assert len(cache.entries()) == STORED + 1 and all(entry.sound for entry in cache.entries())
