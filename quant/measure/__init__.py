"""What quantization did to a model: its size, its quality, the text that both are measured on."""
