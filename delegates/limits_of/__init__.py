"""What each of our delegates supports and requires, one file each. Importing them is fast, so that
a request that one refuses, and --list-delegates, need no large library."""
