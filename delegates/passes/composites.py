"""PyTorch's list of the operators that it composes of others, made once for an export: each
decomposition of a program would make it again, a tenth of a module's export."""

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from torch.export import decomp_utils, exported_program

_LIST = "_collect_all_valid_cia_ops"


@contextmanager
def composites_listed_once() -> Iterator[None]:
    """Within it, the list is that of the first decomposition. What is registered later is not in
    it, and is decomposed as PyTorch says."""
    once = functools.cache(getattr(exported_program, _LIST))
    with ExitStack() as stack:
        for module in (exported_program, decomp_utils):
            stack.enter_context(patch.object(module, _LIST, once))
        yield
