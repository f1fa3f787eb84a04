"""Quantized programs of PyTorch: integers stay integers, and the numbers are PyTorch's."""

import pytest

torch = pytest.importorskip("torch")

pytest.importorskip("torch.ao.quantization.fx._decomposed")  # it registers the ops

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

F = torch.nn.functional
pt2e = torch.ops.quantized_decomposed
BYTES = (0, 255, torch.uint8)
SIGNED = (-127, 127, torch.int8)


class Weights(torch.nn.Module):
    """A quantized weight with a scale for each result."""

    def __init__(self, *shape):
        super().__init__()
        self.register_buffer("stored", (20 * randn(*shape)).to(torch.int8))
        self.register_buffer("scales", 0.01 + randn(shape[0]).abs() / 100)
        self.register_buffer("zeros", torch.zeros(shape[0], dtype=torch.int64))

    def forward(self):
        parts = self.stored, self.scales, self.zeros
        return pt2e.dequantize_per_channel(*parts, 0, *SIGNED)


def requantized(x, scale, zero):
    """x in bytes, and back."""
    return pt2e.dequantize_per_tensor(
        pt2e.quantize_per_tensor(x, scale, zero, *BYTES), scale, zero, *BYTES
    )


def test_convolutions_and_products_of_bytes_are_recognised():
    def net(kernel, matrix, x):
        x = requantized(x, 0.03, 120)
        x = requantized(F.conv2d(x, kernel(), padding=1).relu(), 0.05, 0)
        x = requantized(x.mean((2, 3)), 0.03, 0)
        return requantized(F.linear(x, matrix()), 0.02, 7)

    weights = [Weights(8, 3, 3, 3), Weights(4, 8)]
    model = assert_agree(net, randn(1, 3, 6, 6), modules=weights, backend="cpu")
    text = model.ir("lowered")
    assert "quantized_conv(" in text
    assert "quantized_matmul(" in text


@pytest.mark.slow  # an export takes most of a second
def test_scales_of_channels_rows_and_groups_are_pytorchs():
    def calls(x, scales, zeros):
        rows, signed = scales[:, None], (-127, 127, torch.int8)
        groups = torch.cat([rows, 2 * rows], 1)
        stored = pt2e.quantize_per_channel(x, scales, zeros, 0, *signed)
        by_row = pt2e.quantize_per_token(x, rows, zeros[:, None], -128, 127, torch.int8)
        by_group = pt2e.quantize_per_channel_group(
            x, groups, torch.zeros_like(groups), -8, 7, torch.int8, 4
        )
        nothing = torch.zeros_like(groups)
        least, most = (-128, 127), torch.int8
        return (
            stored,
            by_row,
            by_group,
            pt2e.dequantize_per_token(by_row, rows, zeros[:, None], *least, most, torch.float32),
            pt2e.dequantize_per_channel_group(
                by_group, groups, nothing, -8, 7, torch.int8, 4, torch.float32
            ),
            pt2e.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8),
            pt2e.choose_qparams_symmetric.tensor(x, -127, 127, 1e-6, torch.int8),
            pt2e.quantize_per_tensor.tensor(x, scales[:1], zeros[:1], *least, most),
        )

    scales, zeros = 0.02 + randn(3).abs() / 10, torch.tensor([0, 3, -5])
    assert_agree(calls, randn(3, 8), scales, zeros)


@pytest.mark.slow  # importing torchao takes seconds
def test_weights_of_torchao_stay_bytes_or_less():
    quantization = pytest.importorskip("torchao.quantization")
    groups = pytest.importorskip("torchao.quantization.granularity").PerGroup(32)
    layers = [torch.nn.Linear(128, 128) for _ in range(3)]
    four = {"weight_dtype": torch.int4, "granularity": groups}
    quantization.quantize_(layers[0], quantization.Int8WeightOnlyConfig())
    quantization.quantize_(layers[1], quantization.Int8DynamicActivationInt8WeightConfig())
    quantization.quantize_(layers[2], quantization.IntxWeightOnlyConfig(**four))

    def apply(*parts):
        *layers, x = parts
        return [layer(x) for layer in layers]

    model = assert_agree(apply, randn(2, 128), modules=layers, backend="cpu")
    text = model.ir("lowered")
    assert text.count("stored_matmul(") == 2
    assert text.count("quantized_matmul(") == 1
    assert model.memory.weight_bytes < 60_000
