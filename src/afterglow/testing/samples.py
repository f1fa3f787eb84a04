"""Small programs that the contract of a backend is checked with."""

from __future__ import annotations

from afterglow.graph import Module, parse_module

LAYER = """
const @weight : f32[3, 4] = [0.5, -1, 2, 0.25, 1, 1, -0.5, 3, -2, 0.125, 1.5, 1]
const @bias : f32[4] = [0.5, 0, -1, 2]
func @main(%x: f32[2, 3]) {
  %product = matmul(%x, @weight) : f32[2, 4]
  %sum = add(%product, @bias) : f32[2, 4]
  %y = max(%sum, @bias) : f32[2, 4]
  return %y, %product
}
"""
"""A layer with two results."""

COUNTER = """
state @total : f32[4]
func @main(%x: f32[4]) {
  %next = add(@total, %x) : f32[4]
  store %next to @total
  return %next
}
"""
"""A sum over all runs."""

LOOKUP = """
func @main(%table: f32[5, 2], %index: i64[3]) {
  %y = gather(%table, %index) {axis = 0} : f32[3, 2]
  return %y
}
"""
"""Rows of a table: an index outside of it is an error of the run."""


def module(text: str) -> Module:
    """One of the programs, as a graph."""
    return parse_module(text)
