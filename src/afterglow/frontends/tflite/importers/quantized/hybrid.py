"""TFLite's ops on real numbers with quantized weights: weights are dequantized.

TFLite quantizes what such an op reads, too, as it comes; here it stays as it is, which errs less.
"""

from __future__ import annotations

from afterglow.frontends.definition.dialect import Results
from afterglow.frontends.tflite.importers.quantized.conversion import dequantized
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import HYBRID, TFLITE, tflite_op
from afterglow.graph import Value

_OPS = (
    "BATCH_MATMUL",
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    "BIDIRECTIONAL_SEQUENCE_RNN",
    "CONV_2D",
    "CONV_3D",
    "DEPTHWISE_CONV_2D",
    "EMBEDDING_LOOKUP",
    "EMBEDDING_LOOKUP_SPARSE",
    "FULLY_CONNECTED",
    "LSTM",
    "RNN",
    "SVDF",
    "TRANSPOSE_CONV",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN",
)


@tflite_op(*_OPS, domain=HYBRID)
def with_real_weights(n: TfliteNode) -> Results:
    """The op on real numbers."""
    operands = [
        _real(n, index, operand) if isinstance(operand, Value) else operand
        for index, operand in enumerate(n.operands)
    ]
    plain = TFLITE.find("", n.proto.op_type, 1)
    if plain is None:
        raise TFLITE.missing("", n.proto.op_type, 1)
    return plain(n.with_operands(*operands))


def _real(n: TfliteNode, index: int, operand: Value) -> Value:
    """An operand, dequantized if it is quantized."""
    quantization = n.quantization(index)
    if quantization is None or not operand.type.dtype.is_integer:
        return operand
    return dequantized(n, operand, quantization)
