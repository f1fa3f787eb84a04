"""The line of the user's program that a call comes from."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Any

import torch

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_LIBRARY = str(Path(torch.__file__).parent)


def source_line(node: Any) -> str:
    """The innermost line outside of PyTorch that an FX node comes from, such as `model.py:12`."""
    frames = [frame for frame in _FRAME.findall(node.stack_trace or "") if frame[0][0] != "<"]
    own = [frame for frame in frames if not frame[0].startswith(_LIBRARY)] or frames
    return f"{PurePath(own[-1][0]).name}:{own[-1][1]}" if own else ""
