"""Tools for developers: profiles by source line, a numeric debugger, benchmarks."""
