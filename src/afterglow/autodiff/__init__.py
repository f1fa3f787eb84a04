"""Derivatives of graphs, as graphs."""

from afterglow.autodiff.cone import nodes_behind
from afterglow.autodiff.differentiate import differentiate
from afterglow.autodiff.reverse import gradients
from afterglow.autodiff.substitute import substituted

__all__ = ["differentiate", "gradients", "nodes_behind", "substituted"]
