"""What an error costs in each column of a matrix, by a text that was measured before.

Scales of groups are then searched for the least squared error in which each column counts by the
mean square of its inputs: what rounding to nearest loses in the matrix's outputs.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Importance:
    """
    Attributes:
        columns: float32 (columns,) of each matrix, by its path without the final ".weight"; their
            mean is 1.
        facts: of where they are from, for reports.
    """

    columns: Mapping[str, Tensor]
    facts: Mapping[str, Any]

    def digest(self) -> str:
        """Of the numbers, not of where they are from."""
        digest = hashlib.sha256()
        for name, numbers in sorted(self.columns.items()):
            digest.update(f"{name} {len(numbers)};".encode() + numbers.numpy().tobytes())
        return digest.hexdigest()
