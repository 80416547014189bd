"""A `.pte` with a wrong weight."""

from pathlib import Path

from executorch.exir._serialize._program import deserialize_pte_binary


def damage_weight(pte: Path, name: str, out: Path) -> Path:
    """Writes a file of the CPU delegate anew with the second half of a weight's bytes changed."""
    data = bytearray(pte.read_bytes())
    named = deserialize_pte_binary(bytes(data)).named_data
    assert named is not None
    weight = bytes(named.buffers[named.pte_data[f"cpu/{name}"].buffer_index])
    at = data.find(weight)
    for offset in range(at + len(weight) // 2, at + len(weight)):
        data[offset] ^= 0x35
    out.write_bytes(data)
    return out
