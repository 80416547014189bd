"""What several processes do on a second device each, for tests/quant/test_device.py:
torchrun --nproc-per-node 2 tests/support/second_device_processes.py CACHE

Gradients are here as well, for PyTorch computes them on other devices only where one is registered
for the whole process. Prints a line of what each process has found the same.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import torch.distributed as dist
from support.device_runs import CONFIG, FLOAT, SHORT, Run, assert_same, tokens
from support.second_device import SECOND, SecondDevice
from support.small_models import ModelWeights
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import quant.machine.products
import quant.rounding.solve
from exporter.models.decoder import CausalLM
from quant.budget.sensitivity import measure_costs
from quant.cache.store import Cache
from quant.machine.ranks import Ranks
from quant.machine.resources import Resources
from quant.rotation.fold import random_values, rotated_by
from quant.rotation.hadamard import orthogonal_matrix
from quant.rotation.learned import _Network, cayley, learn_rotation
from quant.scheme import Scheme
from quant.weight_type import INT8, int4

# Backward, sums of some dozens of terms are added in another order than on the CPU, and rounding
# moves each by 6e-8: 1e-5 of the whole.
TOLERANCE = 1e-5


def shared_work_is_the_same(cache: Path) -> None:
    """Ranks give each other nothing but tensors of their device, and have one process' result."""
    scheme = Scheme("gptq4", head_bits=4, method=replace(SHORT, drift="gptaq"))
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # The CPU's sums of integers and products of two parts are its own.
    quant.machine.products._rounds = lambda: False  # type: ignore[assignment]
    quant.rounding.solve.integers_are_fast = lambda: False  # type: ignore[assignment]
    wanted = Run(scheme, Resources())
    resources = Resources(Cache(cache), ranks=Ranks(rank, count, SECOND), device=SECOND)
    with SecondDevice() as second:
        run = Run(scheme, resources)
    assert {device for _, device in second.work} == {"second"}, second.work
    assert all(second.work[name, "second"] > 0 for name in ("broadcast_", "send", "recv_"))
    if rank == 0:
        assert_same(run, wanted)  # the first measures quality, too
    with SecondDevice():
        assert Run(scheme, resources).made == 0


def empty() -> CausalLM:
    with torch.device("meta"):
        return CausalLM(CONFIG)


def loss_and_gradient(device: torch.device) -> tuple[Tensor, Tensor]:
    """Of the network that learns its rotation, at its start."""
    model = empty()
    start = orthogonal_matrix(CONFIG.hidden_size).to(device, torch.float32)
    values = random_values(model, 1)
    eye = torch.eye(CONFIG.hidden_size, dtype=torch.float64)
    network = _Network(model, rotated_by(model, ModelWeights(FLOAT), eye, values), 32, device)
    skew = torch.zeros_like(start, requires_grad=True)
    loss = network.loss(tokens(4, 1).to(device), start @ cayley(skew))
    loss.backward()
    assert skew.grad is not None
    return loss.detach().cpu(), skew.grad.cpu()


def gradients_are_the_same() -> None:
    """A rotation is learned, and what bits cost is measured, from tensors of the device alone."""
    torch.utils.rename_privateuse1_backend("privateuseone")
    torch._C._acc.register_python_privateuseone_hook(_Hooks())
    module = sys.modules["torch.privateuseone"]  # which Adam asks whether it records graphs
    module.is_available = lambda: False  # type: ignore[attr-defined]
    torch.privateuseone = module  # type: ignore[attr-defined]
    loss, gradient = loss_and_gradient(torch.device("cpu"))
    method, types = Scheme("gptq4").choice, (int4(32), INT8)
    costs = measure_costs(empty(), method, types, ModelWeights(FLOAT), tokens(4, 1))
    with SecondDevice() as second:
        second_loss, second_gradient = loss_and_gradient(SECOND)
        work = measure_costs(empty(), method, types, ModelWeights(FLOAT), tokens(4, 1), SECOND)
        learned = learn_rotation(empty(), ModelWeights(FLOAT), tokens(4, 1), 32, SECOND, steps=2)
    assert second.work["mm", "second"] > 0
    assert torch.equal(second_loss, loss)
    assert (second_gradient - gradient).norm() < TOLERANCE * gradient.norm()
    for name, cost in costs.items():
        for ours, theirs in zip(cost, work[name], strict=True):
            assert abs(theirs - ours) < TOLERANCE * ours
    rows = learned.tensor("model.embed_tokens.weight").norm(dim=1)
    assert torch.allclose(rows, FLOAT.model.embed_tokens.weight.norm(dim=1), rtol=TOLERANCE)


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, dev_id: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("cpu:gloo,privateuseone:gloo")
    with sdpa_kernel(SDPBackend.MATH):
        shared_work_is_the_same(Path(sys.argv[1]))
        if os.environ["RANK"] == "0":
            gradients_are_the_same()
    dist.destroy_process_group()
    sys.stdout.write(f"rank {os.environ['RANK']}: the same\n")
