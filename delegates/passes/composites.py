"""PyTorch's list of the operators that it composes of others, made once for an export: each
decomposition of a program would make it again, a tenth of a module's export."""

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.export import decomp_utils, exported_program

_LIST = "_collect_all_valid_cia_ops"


@contextmanager
def composites_listed_once() -> Iterator[None]:
    """Within it, the list is made once, and again when a library has registered more operators."""
    collect = getattr(exported_program, _LIST)

    @functools.cache
    def listed(registered: frozenset[str]) -> Any:
        return collect()

    def once() -> Any:
        names = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        return listed(frozenset(names))

    with ExitStack() as stack:
        for module in (exported_program, decomp_utils):
            stack.enter_context(patch.object(module, _LIST, once))
        yield
