"""Modules from text: whoever imports this has the whole catalogue of ops that a text may name."""

from afterglow.graph import parse_module as parse_module
