"""Ops that read or write at computed places: gather, scatter, topk, one-hot, cumulative sums."""
