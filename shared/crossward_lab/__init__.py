"""Measuring and showing Crossward: benchmarks, the privacy audit, simulations, the demonstration."""
