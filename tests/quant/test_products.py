"""Which products are computed by which library, and that none is rounded."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.device_runs import SHORT, Run

import quant.layers.block_solver
import quant.layers.stream
from quant.machine.products import (
    add_product,
    exact_products,
    fast_products,
    integer_product,
)
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

    watch(quant.layers.block_solver, "statistics")
    watch(quant.layers.block_solver, "solve")
    watch(quant.layers.stream.States, "advance")
    Run(Scheme("gptq4", method=SHORT), Resources())
    with fast_products():
        fast = precision()
    assert seen == {"statistics": {fast}, "solve": {"ieee"}, "advance": {precision()}}


@pytest.mark.parametrize("bias", [None, torch.randn(48)])
def test_a_linear_of_two_parts_loses_next_to_nothing(bias: torch.Tensor | None) -> None:
    """Each part of the input is rounded to 8 bits: what is left of it is below 2^-17; and the sum
    of 600 products is one of float32."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(3, 70, 600, generator=generator)
    x[:, 0, 7] = 1000  # beside it, the others' products count
    weight = torch.randn(48, 600, generator=generator).bfloat16().float()
    expected = x.double() @ weight.double().T
    with torch.no_grad(), fast_products():
        found = torch.nn.functional.linear(x, weight, bias)
    if bias is not None:
        expected = expected + bias.double()
    most = (x.abs() @ weight.abs().T).double()
    assert ((found.double() - expected).abs() <= (2**-16 + 600 * 2**-24) * most).all()


def test_a_weight_that_bfloat16_does_not_hold_is_not_rounded() -> None:
    x, weight = torch.eye(64), torch.full((64, 64), 1 + 2.0**-12)
    with torch.no_grad(), fast_products():
        assert torch.equal(torch.nn.functional.linear(x, weight), weight.T)


def test_gradients_are_those_of_one_product() -> None:
    x = torch.randn(8, 64, requires_grad=True)
    weight = torch.randn(16, 64).bfloat16().float()
    with fast_products():
        torch.nn.functional.linear(x, weight).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, weight.sum(0).expand(8, 64))


def test_a_product_of_integers_is_exact() -> None:
    codes = torch.randint(-255, 256, (2, 5, 640)).float()
    integers = torch.randint(-127, 128, (33, 640)).float()
    exact = codes.double() @ integers.double().T
    assert torch.equal(integer_product(codes, integers).double(), exact)


@pytest.mark.parametrize("exact", [True, False])
def test_a_product_with_integers_on_the_right(exact: bool) -> None:
    left = torch.randn(500, 64)
    right = torch.randint(-255, 256, (500, 96)).float()
    total = torch.ones(64, 96)
    add_product(total, left, right, exact)
    expected = left.double().T @ right.double() + 1
    most = left.abs().double().T @ right.abs().double()
    assert ((total.double() - expected).abs() <= (2**-16 + 500 * 2**-24) * most + 1e-6).all()
