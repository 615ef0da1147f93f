"""Benchmarks: what a fit costs, beside what others pay for theirs."""
