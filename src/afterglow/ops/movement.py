"""Ops that move elements: reshape, transpose, expand, concat, slice, pad, tile."""
