"""Recomputation: a training step computes values of its forward pass again instead of keeping them.

- `forward`: the forward pass of a step, and what the rest of it reads.
- `keep`: the values to keep so that all others can be computed again.
- `segments`: stretches of the forward pass that may be computed again, at narrow points.
- `search`: which of them, for how many bytes.
- `rewrite`: the nodes that compute values again.
- `passes`: the pass.
"""

from afterglow.lowering.recompute.passes import Checkpoint, Planning, Recompute

__all__ = ["Checkpoint", "Planning", "Recompute"]
