"""Drawings of documents, made from a model that is compiled: one module for each."""
