"""Quality against bits: our files beside those of llama.cpp's own tools."""
