"""Where a quantization computes and keeps: devices, processes, memory, disk."""
