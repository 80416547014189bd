"""A second device in the CPU's memory: its numbers are the CPU's, and it does not mix with it.

`torch.device("privateuseone")` is PyTorch's name for devices that others implement. Within
`SecondDevice` whatever is made on it, or brought there, is a tensor that says so; its operators are
computed by the CPU's kernels, and raise MixedDevices where the CPU's own tensors are among their
arguments. A GPU lets some of that pass, such as an index or a scalar of the CPU; nothing passes
here but copies from one to the other. So what runs through here has no tensor on the wrong side,
and has to give the CPU's own bits.
"""

import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

SECOND = torch.device("privateuseone", 0)
_WORK = (
    "broadcast_",
    "send",
    "recv_",
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "linalg_cholesky_ex",
    "linalg_solve_triangular",
)


class _Guard(torch._C._acc.DeviceGuard):
    """Indexing asks which of several such devices is the current one; there is one."""

    def type_(self) -> torch._C._autograd.DeviceType:
        return torch._C._autograd.DeviceType.PrivateUse1


torch._C._acc.register_python_privateuseone_device_guard(_Guard())
# What PyTorch asks to start such a device, which has nothing to start.
sys.modules["torch.privateuseone"] = ModuleType("torch.privateuseone")


class MixedDevices(Exception):
    """An operator was given tensors of both devices."""


class SecondTensor(Tensor):
    """A tensor of the second device; `inner` is the CPU's with its numbers."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, inner: Tensor) -> "SecondTensor":
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=SECOND,
        )

    def __init__(self, inner: Tensor) -> None:
        super().__init__()
        self.inner = inner

    def tolist(self) -> Any:
        """Reading numbers is a copy to the CPU."""
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _run(func, args, kwargs or {})


class SecondDevice(TorchDispatchMode):
    """While it is entered, there is a second device.

    Attributes:
        work: how often each of the operators that take time ran on which device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.work: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(kind not in (Tensor, torch.nn.Parameter, SecondTensor) for kind in types):
            return NotImplemented  # a quantized weight, which runs operators on its parts
        ours = SecondTensor in types
        name = func.overloadpacket.__name__
        if name in _WORK:
            self.work[name, "second" if ours else "cpu"] += 1
        if ours or kwargs.get("device") == SECOND:
            return _run(func, args, kwargs)
        return func(*args, **kwargs)


def _run(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """An operator with a tensor of the second device among its arguments or for its result."""
    ours: dict[int, SecondTensor] = {}  # by their inner tensors
    others = False

    def inner(x: Any) -> Any:
        nonlocal others
        if isinstance(x, SecondTensor):
            ours[id(x.inner)] = x
            return x.inner
        others = others or isinstance(x, Tensor)
        return [inner(item) for item in x] if isinstance(x, list | tuple) else x

    def outer(x: Any) -> Any:
        if isinstance(x, Tensor):
            if id(x) in ours:
                return ours[id(x)]  # changed in place
            return SecondTensor(x) if to_second else x
        return type(x)(outer(item) for item in x) if isinstance(x, list | tuple) else x

    unwrapped = [inner(x) for x in args]
    options = {name: inner(x) for name, x in kwargs.items()}
    copies = func in (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default)
    if ours and others and not copies:
        raise MixedDevices(f"{func} of tensors on two devices")
    device = options.get("device")
    to_second = isinstance(args[0], SecondTensor) if copies else bool(ours)
    if device is not None:
        to_second, options["device"] = device == SECOND, torch.device("cpu")
    return outer(func(*unwrapped, **options))
