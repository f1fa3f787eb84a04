"""Bundles: compiled programs as one object file that C programs link, and that needs nothing."""
