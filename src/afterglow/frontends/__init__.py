"""Importers: foreign model formats into the graph IR."""
