"""Rotations are orthogonal, spread single coordinates evenly, and leave the float model alone."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.decoder_specs import varied
from support.quantization import CONFIG, Stories, empty_model, random_weights, tokens

from quant.cache.store import Cache
from quant.machine.resources import Resources
from quant.modules import QuantizedLinear, drop_activation_rounding
from quant.quantize import quantize
from quant.rotation.fold import rotate
from quant.rotation.hadamard import hadamard_factors, orthogonal_matrix
from quant.rotation.inputs import rotate_blocks
from quant.rotation.learned import _Network, cayley, learn_rotation
from quant.scheme import Scheme


@pytest.fixture(scope="module")
def stories(shared_data: Path) -> Stories:
    return Stories(shared_data)


@pytest.mark.parametrize("size", [1, 2, 4, 12, 20, 28, 36, 60, 64, 96, 576, 896, 960])
def test_hadamard_matrices_are_flat_and_orthogonal(size: int) -> None:
    assert hadamard_factors(size) is not None
    matrix = orthogonal_matrix(size)
    assert torch.allclose(matrix @ matrix.T, torch.eye(size, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(matrix.abs(), torch.full_like(matrix, size**-0.5), atol=1e-12)


@pytest.mark.parametrize("size", [3, 6, 10, 172])
def test_where_no_hadamard_matrix_is_known_a_random_one_rotates(size: int) -> None:
    assert hadamard_factors(size) is None
    matrix = orthogonal_matrix(size)
    assert torch.allclose(matrix @ matrix.T, torch.eye(size, dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("size", [16, 32, 64])
def test_rotated_inputs_of_a_rotated_weight_give_the_same_product(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(5, 3 * size, generator=generator, dtype=torch.float64)
    weight = torch.randn(7, 3 * size, generator=generator, dtype=torch.float64)
    product = rotate_blocks(x, size) @ rotate_blocks(weight, size).T
    assert torch.allclose(product, x @ weight.T, atol=1e-12)
    one = torch.zeros(3 * size, dtype=torch.float64)
    one[size + 5] = 1.0  # is spread over its block, and no further
    spread = rotate_blocks(one, size)
    assert torch.allclose(spread[size : 2 * size].abs(), torch.full((size,), size**-0.5).double())
    assert spread.count_nonzero() == size
    assert torch.equal(rotate_blocks(x, 0), x)


def test_the_largest_block_that_divides_the_columns_is_taken() -> None:
    sizes = {576: 64, 1536: 64, 96: 32, 48: 16, 88: 0, 172: 0}
    assert {columns: Scheme("gptq4").choice.rotated(columns) for columns in sizes} == sizes
    assert Scheme("rtn4").choice.rotated(576) == 0


def test_quantized_layers_rotate_their_inputs_and_are_kept_so_in_the_cache(tmp_path: Path) -> None:
    resources = Resources(Cache(tmp_path))
    models = [empty_model(CONFIG), empty_model(CONFIG)]
    for model in models:
        quantize(model, Scheme("gptq4"), random_weights(CONFIG), tokens(), resources=resources)
    made, cached = (
        {
            name: (module.rotated, module.in_features, module.quantized_weight.dequantize())
            for name, module in model.named_modules()
            if isinstance(module, QuantizedLinear)
        }
        for model in models
    )
    for name, (rotated, columns, weight) in made.items():
        assert rotated == (0 if name == "lm_head" else Scheme().choice.rotated(columns))
        assert cached[name][0] == rotated and torch.equal(cached[name][2], weight)
    text = tokens(2)
    logits = models[0].logits(text)
    drop_activation_rounding(models[0])  # the weights are rotated back
    floats = models[0].logits(text)
    assert (logits - floats).norm() < 0.05 * floats.norm()


def test_seeds_give_different_rotations() -> None:
    assert not torch.equal(orthogonal_matrix(64, 0), orthogonal_matrix(64, 1))
    assert torch.equal(orthogonal_matrix(64, 3), orthogonal_matrix(64, 3))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_the_float_model_stays_the_same(family: str, tied: bool) -> None:
    config = varied(
        CONFIG,
        model_type=family,
        hidden_size=60,
        tie_word_embeddings=tied,
        attention_bias=family != "llama",
        attention_out_bias=family == "qwen3",
        mlp_bias=family == "qwen2",
        qk_norm="heads" if family == "qwen3" else None,
    )
    weights = random_weights(config)
    generator = torch.Generator().manual_seed(4)
    for name, tensor in weights.tensors.items():
        if "norm" in name:  # trained norms are not ones
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    plain, rotated = empty_model(config), empty_model(config)
    quantize(plain, Scheme("none"), weights)
    quantize(rotated, Scheme("none"), rotate(rotated, weights))
    assert torch.count_nonzero(rotated.model.norm.weight - 1) == 0
    assert not torch.allclose(
        plain.model.layers[0].mlp.up_proj.weight, rotated.model.layers[0].mlp.up_proj.weight
    )
    window = tokens()
    with torch.no_grad():
        want, have = plain.logits(window), rotated.logits(window)
    # Weights are rotated in float64 and rounded to float32 once: 6e-8 of each, over sums of 60 to
    # 80 products and 3 layers, some ten of which add up: 1e-5 of the largest logit.
    assert (want - have).abs().max() < 1e-5 * want.abs().max()


def test_the_cayley_map_gives_rotations() -> None:
    matrix = cayley(torch.randn(24, 24, dtype=torch.float64))
    assert torch.allclose(matrix @ matrix.T, torch.eye(24, dtype=torch.float64), atol=1e-12)
    assert torch.linalg.det(matrix).item() == pytest.approx(1)
    assert torch.equal(cayley(torch.zeros(5, 5)), torch.eye(5))


def test_a_learned_rotation_leaves_the_float_model_and_lowers_the_loss(stories: Stories) -> None:
    calibration = stories.calibration[:, :128]
    rotated = empty_model(stories.config)
    start = learn_rotation(rotated, stories.weights, calibration, 32, steps=0)
    network = _Network(rotated, start, 32)
    eye = torch.eye(64)
    window = calibration[:8]
    trained = empty_model(stories.config)
    learned = learn_rotation(trained, stories.weights, calibration, 32, steps=12)
    with torch.no_grad():
        before = network.loss(window, eye).item()
        after = _Network(trained, learned, 32).loss(window, eye).item()
    assert after < before - 0.01
    quantize(trained, Scheme("none"), learned)
    with torch.no_grad():
        want, have = stories.reference.logits(window), trained.logits(window)
    # Learned in float32, applied in float64: orthogonal to 1e-14, rounded to float32 twice.
    assert (want - have).abs().max() < 2e-5 * want.abs().max()


@pytest.mark.parametrize("name", ["rtn4", "gptq4"])
def test_a_rotated_model_is_quantized_and_measured_like_any_other(name: str) -> None:
    scheme = Scheme(name)
    rotated = replace(scheme, method=replace(scheme.choice, rotation="hadamard"))
    model = empty_model(CONFIG)
    report = quantize(model, rotated, random_weights(CONFIG), tokens(16), tokens(seed=9))
    plain = quantize(
        empty_model(CONFIG), scheme, random_weights(CONFIG), tokens(16), tokens(seed=9)
    )
    assert report.quality is not None and plain.quality is not None
    assert report.quality.perplexity_float == pytest.approx(
        plain.quality.perplexity_float, rel=1e-5
    )
    assert 0 < report.layer_errors[-1] < 2 * plain.layer_errors[-1]
