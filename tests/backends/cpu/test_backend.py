from __future__ import annotations

import numpy as np

import afterglow
from tests.frontends.models import info, model, node


def test_a_padded_convolution_reads_a_halo_rather_than_a_large_copy() -> None:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Conv", ["r", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1]),
    ]
    weight = np.random.default_rng(0).standard_normal((8, 16, 3, 3)).astype(np.float32)
    for size, has_halo in ((64, True), (8, False)):
        source = model(
            nodes,
            inputs=[info("x", (1, 16, size, size))],
            outputs=[info("y", (1, 8, size // 2, size // 2))],
            constants={"w": weight},
        )
        compiled = afterglow.compile(source, cache=False)
        text = compiled.ir("instructions")
        assert (".halo = alloc" in text) is has_halo
        assert ('"padded"' in text) is not has_halo
        x = np.random.default_rng(1).standard_normal((1, 16, size, size)).astype(np.float32)
        wanted = afterglow.compile(source, backend="interpreter", cache=False)(x)
        np.testing.assert_allclose(compiled(x), wanted, rtol=1e-4, atol=1e-5)
