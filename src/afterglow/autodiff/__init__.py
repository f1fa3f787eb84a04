"""Derivatives of graphs, as graphs."""

from afterglow.autodiff.cone import nodes_behind
from afterglow.autodiff.reverse import gradients
from afterglow.autodiff.substitute import substituted

__all__ = ["gradients", "nodes_behind", "substituted"]
