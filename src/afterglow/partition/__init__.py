"""Placing a model on several devices: what steps cost on each of them."""
