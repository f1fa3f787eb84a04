"""Backends: what turns a planned program into something that runs."""
