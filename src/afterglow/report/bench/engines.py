"""The engines that can be compared, and how to get them."""

from __future__ import annotations

OURS = "afterglow"
PEERS = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "mnn": "MNN",
}
"""Each peer, and the package that `pip install` wants."""


def how_to_install(peer: str, python: str) -> str:
    """What to type, so that a Python has a peer."""
    return f"{python} -m pip install {PEERS[peer]}"
