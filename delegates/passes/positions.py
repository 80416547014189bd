"""Positions that `torch.nonzero` finds, stored as ExecuTorch's kernel writes them.

PyTorch's own are stored by columns, so a traced program says that of the kernel's too, which writes
them by rows: whatever reads them takes rows for columns, or refuses them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch


@contextmanager
def positions_by_rows() -> Iterator[None]:
    """Within it, what traces a program takes positions for stored by rows."""
    from torch._subclasses.fake_impls import op_implementations_dict

    nonzero = torch.ops.aten.nonzero.default
    original = op_implementations_dict[nonzero]

    def by_rows(mode: Any, operator: Any, x: Any) -> Any:
        return x.new_empty(original(mode, operator, x).shape, dtype=torch.int64)

    with patch.dict(op_implementations_dict, {nonzero: by_rows}):
        yield
