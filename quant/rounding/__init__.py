"""From floats to integers and scales: one weight at a time."""
