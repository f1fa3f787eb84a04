"""Engines side by side on a machine with many cores: see benchmarks/many_cores.md."""
