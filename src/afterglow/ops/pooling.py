"""Pooling, channels last."""
