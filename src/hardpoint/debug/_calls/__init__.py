"""Captures the operator calls of each framework: arguments, results, source location and saved inputs."""
