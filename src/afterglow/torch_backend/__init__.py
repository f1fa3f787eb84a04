"""Afterglow behind `torch.compile`: `torch.compile(model, backend="afterglow")`.

PyTorch finds it through the entry point group `torch_dynamo_backends`.
"""

from afterglow.torch_backend.backend import afterglow

__all__ = ["afterglow"]
