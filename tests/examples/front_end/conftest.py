from __future__ import annotations

import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "front_end"
sys.path.insert(0, str(EXAMPLE))
