"""Conversations in a model's own format: messages and tools to tokens, answers to calls."""
