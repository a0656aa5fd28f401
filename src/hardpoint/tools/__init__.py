"""Tools around the operator tables."""
