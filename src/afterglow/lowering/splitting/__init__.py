"""Splitting: nodes run in bands, one after the other, where the arena is small.

- `region`: which part of every value a band needs.
- `rewrite`: a region of nodes becomes bands.
- `profile`: which nodes run together, and what is live meanwhile.
- `walk`: running some of them in bands: what that costs, and takes.
- `search`: the cheapest choice of bands within a limit.
- `fit`: the pass.
"""

from afterglow.lowering.splitting.fit import FitArena
from afterglow.lowering.splitting.profile import Memory

__all__ = ["FitArena", "Memory"]
