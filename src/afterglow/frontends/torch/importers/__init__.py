"""Importers of PyTorch's ops, a file for each family."""
