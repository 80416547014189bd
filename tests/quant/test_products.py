"""Which products are computed by which library, and that none is rounded."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.device_runs import SHORT, Run

import quant.layers.place
import quant.layers.stream
from quant.machine.products import exact_products, fast_products
from quant.machine.resources import Resources
from quant.scheme import Scheme


def precision() -> str:
    return str(torch.backends.mkldnn.matmul.fp32_precision)


def test_what_was_set_is_set_again() -> None:
    before = precision()
    with pytest.raises(ZeroDivisionError), fast_products():
        fast = precision()
        with exact_products():
            assert precision() == "ieee"
        assert precision() == fast
        raise ZeroDivisionError
    assert precision() == before


@pytest.mark.parametrize("size", [16, 64, 576])
def test_no_product_is_rounded(size: int) -> None:
    """Numbers that bfloat16 does not hold, times 1."""
    numbers = torch.rand(256, size, generator=torch.Generator().manual_seed(size))
    with fast_products():
        assert torch.equal(numbers @ torch.eye(size), numbers)


def test_only_the_calibration_texts_products_are_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is solved and what is measured is left to the default."""
    seen: dict[str, set[str]] = {}

    def watch(owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            seen.setdefault(name, set()).add(precision())
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, watched)

    watch(quant.layers.place, "statistics")
    watch(quant.layers.place, "solve")
    watch(quant.layers.stream.States, "advance")
    Run(Scheme("gptq4", method=SHORT), Resources())
    with fast_products():
        fast = precision()
    assert seen == {"statistics": {fast}, "solve": {"ieee"}, "advance": {precision()}}
