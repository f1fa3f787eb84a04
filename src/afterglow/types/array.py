"""Arrays as type checkers see them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array of any element type and shape."""
