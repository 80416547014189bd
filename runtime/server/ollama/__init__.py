"""Ollama's interface, below /api."""
