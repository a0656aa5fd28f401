"""Comparison of one call with the CPU: the reference computation, tolerances and the verdict for each tensor."""
