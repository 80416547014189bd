"""Scripts that run peers in another Python, where their packages are; they import nothing of ours
but each other."""
