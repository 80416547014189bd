"""Any module of PyTorch, as its user's function makes it: captured, checked, described."""
