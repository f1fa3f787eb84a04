"""The graph IR: typed dataflow. Knows no particular op."""

from afterglow.graph.band import Band, Cut
from afterglow.graph.builder import Builder
from afterglow.graph.digest import structural_hash
from afterglow.graph.dot import print_dot
from afterglow.graph.evaluate import run_function, run_node, run_op
from afterglow.graph.function import Function, Module, Output, Update
from afterglow.graph.host_op import BOUNDARY, HostOp
from afterglow.graph.op import OPS, Halo, Op, op
from afterglow.graph.origins import Origins, joined_origins
from afterglow.graph.parser import parse_function, parse_module
from afterglow.graph.printer import print_function, print_module
from afterglow.graph.subgraph import Subgraph
from afterglow.graph.tape import Tape
from afterglow.graph.value import Constant, Gradients, Node, Placeholder, PlaceholderKind, Value
from afterglow.graph.verifier import verify_function, verify_module

__all__ = [
    "BOUNDARY",
    "OPS",
    "Band",
    "Builder",
    "Constant",
    "Cut",
    "Function",
    "Gradients",
    "Halo",
    "HostOp",
    "Module",
    "Node",
    "Op",
    "Origins",
    "Output",
    "Placeholder",
    "PlaceholderKind",
    "Subgraph",
    "Tape",
    "Update",
    "Value",
    "joined_origins",
    "op",
    "parse_function",
    "parse_module",
    "print_dot",
    "print_function",
    "print_module",
    "run_function",
    "run_node",
    "run_op",
    "structural_hash",
    "verify_function",
    "verify_module",
]
