"""The numeric debugger: what a program computes, line by line, beside what the model computes.

Nothing here knows a model of ours: `recording` watches any module run, `sinks` says which node of
the graph each value of a running program is, `logged` keeps those values in a file until they are
compared, `figures` tells how far two tensors lie apart, `rows` puts them side by side, and
`outcome` is all of it.
"""
