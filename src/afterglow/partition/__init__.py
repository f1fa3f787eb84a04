"""Partitioning: which device computes which part of a graph."""
