"""The numeric debugger: what a program computes, line by line, beside what the model computes.

Nothing here knows a model of ours: `recording` watches any module run, `logged` reads what a
program logged, `sinks` says which node of the graph each logged output is, `figures` tells how far
two tensors lie apart, and `rows` puts them side by side.
"""
