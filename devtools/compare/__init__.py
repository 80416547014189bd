"""The numeric debugger: compares what a program computes with what the model computes, by line.

Nothing here depends on our models: `recording` records any module's run, `sinks` finds the graph's
node for each value of a running program, `logged` keeps those values in a file until they are
compared, `figures` computes the distance of two tensors, `rows` compares the runs line by line, and
`outcome` is the result.
"""
