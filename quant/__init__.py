"""Quantization: schemes, two-level scales, GPTQ, calibration, measured quality."""
