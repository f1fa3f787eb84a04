"""Errors, names and worklists: no knowledge of tensors."""
