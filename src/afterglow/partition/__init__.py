"""Partitioning: which device computes which part of a graph, and how long that takes."""
