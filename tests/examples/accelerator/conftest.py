from __future__ import annotations

import sys
from pathlib import Path

ACCELERATOR = Path(__file__).parents[3] / "examples" / "accelerator"
sys.path.insert(0, str(ACCELERATOR))
