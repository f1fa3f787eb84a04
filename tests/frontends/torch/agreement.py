"""Calls of PyTorch, compiled and compared with PyTorch."""

import numpy as np
import torch
from torch.utils import _pytree

import afterglow as ag


class Calls(torch.nn.Module):
    """A function as a module, with the modules that it uses."""

    def __init__(self, function, modules=()):
        super().__init__()
        self.function = function
        self.parts = torch.nn.ModuleList(modules)

    def forward(self, *inputs):
        return self.function(*self.parts, *inputs)


def randn(*shape):
    """Numbers that are the same in each run."""
    size = int(np.prod(shape))
    return torch.from_numpy(np.random.default_rng(size).normal(size=shape).astype(np.float32))


def exported(function, *inputs, modules=(), **options):
    """The program of a function of modules, then of inputs."""
    with torch.no_grad():
        return torch.export.export(Calls(function, modules).eval(), inputs, **options)


def assert_agree(function, *inputs, modules=(), backend="interpreter", tolerance=1e-5):
    """What PyTorch computes; the compiled model, for further questions."""
    with torch.no_grad():
        expected = _pytree.tree_leaves(Calls(function, modules).eval()(*inputs))
    model = ag.compile(exported(function, *inputs, modules=modules), backend=backend, cache=False)
    found = model(*(x.numpy() for x in inputs))
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(expected)
    for index, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        theirs = theirs.numpy()
        assert ours.dtype == theirs.dtype
        finite = np.where(np.isfinite(theirs), theirs, 0)
        scale = max(1.0, float(np.abs(finite).max(initial=0)))
        np.testing.assert_allclose(
            ours, theirs, rtol=tolerance, atol=tolerance * scale, err_msg=f"result {index}"
        )
    return model
