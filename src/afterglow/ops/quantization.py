"""Quantization of values, and back."""
