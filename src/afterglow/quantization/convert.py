"""Conversion of a function from floats to integers, by the parameters of its storage points."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from afterglow.graph import Builder, Constant, Function, Node, Origins, Value
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.passes import Pass
from afterglow.quantization.calibrate import calibrate
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.correct_bias import expected_error
from afterglow.quantization.equalise import Equalise
from afterglow.quantization.interface import interface_values, store_interface
from afterglow.quantization.observation import Observation
from afterglow.quantization.points import find_points, is_anchor
from afterglow.quantization.rounding import Rounding
from afterglow.quantization.scaled_observation import scaled_observation
from afterglow.quantization.scheme import LEAST_SCALE, Method, Scheme, chosen_for
from afterglow.quantization.weights import least_scales, quantize_bias, quantize_weight
from afterglow.quantization.widths import point_types
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, Quantization


class Convert(Pass):
    """Every storage point that was observed is stored as integers, which its readers dequantize.

    Weights of anchors become bytes with a scale for each column of the result, biases integers of
    32 bits. The function then reads as one that was quantized elsewhere: later passes make
    products of integers of products of dequantized values.
    """

    name = "convert"

    def __init__(
        self,
        observations: Mapping[str, Observation],
        config: QuantizationConfig = QuantizationConfig(),  # noqa: B008  a frozen value
        *,
        whole: bool = True,
        rounding: Rounding | None = None,
    ) -> None:
        self.observations = observations
        """By the names of points."""
        self.config = config
        self.whole = whole
        """Whether all of a model is converted at once: then all that is named must be there."""
        self.rounding = rounding
        """Rounds weights by what layers read; None: to the nearest integers."""
        self.exponents: Mapping[str, Array] = {}
        """By what powers of two the channels of values were divided, by the names of these."""

    def run(self, function: Function) -> bool:
        """See the class."""
        if function is not function.module.main:
            return False
        self.prepare(function)
        return self.store(function)

    def prepare(self, function: Function) -> None:
        """Check that all that is named is there, and change floats so that integers fit them."""
        if self.whole:
            self.config.check_kept([node for node in function.nodes if is_anchor(node)])
        if self.config.equalise:
            self._equalise(function)

    def store(self, function: Function) -> bool:
        """Store values of a prepared function as integers."""
        points = find_points(function, self.config.keeps, integer_only=self.config.integer_only)
        observed = any(value.name in self.observations for value in points.readers)
        if points.readers and not observed and self.whole:
            raise UsageError(
                "the profile has none of the values that would be stored as integers",
                help="make the profile again, with this version of Afterglow",
            )
        sources = {value: points.parameters_from(value) for value in points.readers}
        types = point_types(points, sources, self.config)
        for value, readers in points.readers.items():
            source, dtype = sources[value], types[value]
            if source.name in self.observations:
                stored = self.store_value(function, value, readers, source.name, dtype)
                if value in points.outputs and not self.config.quantized_io:
                    _return(function, value, stored)
        if self.config.quantized_io:
            self._store_interface(function, sources)
        return bool(points.readers)

    def _store_interface(self, function: Function, sources: Mapping[Value, Value]) -> None:
        """Store inputs and outputs as integers: with the scale that readers have, if any have."""
        names = {v: sources.get(v, v).name for v in interface_values(function)}
        seen, dtype = self.observations, self.config.dtype
        known = {v: self.parameters(name, dtype) for v, name in names.items() if name in seen}
        store_interface(function, known, dtype)

    def _equalise(self, function: Function) -> None:
        """Scale channels to similar ranges, and with them what was observed."""
        seen = self.observations
        equalise = Equalise(seen, gains=not self.config.integer_only)
        equalise.run(function)
        self.exponents = equalise.exponents
        sources = {name: equalise.sources.get(name, name) for name in self.exponents}
        scaled = {
            name: scaled_observation(seen[source], self.exponents[name])
            for name, source in sources.items()
            if source in seen and seen[source].channels is not None
        }
        self.observations = {**seen, **scaled}

    def parameters(self, name: str, dtype: DType) -> Quantization:
        """The scale and zero point of a point that was observed."""
        config = self.config
        scheme, method = chosen_for(dtype, Scheme(config.scheme), Method(config.method))
        observed = self.observations[name]
        return calibrate(observed, scheme, method, dtype, config.percentile)

    def store_value(
        self,
        function: Function,
        value: Value,
        readers: list[tuple[Node, int]],
        source: str,
        dtype: DType,
    ) -> Value:
        """Store a value as integers, which the readers dequantize.

        `source` is the point by whose observation the integers are chosen.
        """
        parameters = self.parameters(source, dtype)
        first = next(iter(function.nodes)) if value.producer is None else value.producer.after
        b = Builder(function, first, name=f"{value.name}.quantized", origins=_origins(value))
        scale = b.constant(np.array(parameters.scales[0], np.float32), f"{value.name}.scale")
        zero = b.constant(np.array(parameters.offsets[0], dtype.numpy), f"{value.name}.zero")
        axis = max(0, value.type.rank - 1)
        stored = b.emit(QuantizeLinear(axis, dtype), value, scale, zero)
        for node, index in readers:
            reader = Builder(function, node, name=f"{value.name}.real", origins=node.origins)
            node.set_operand(index, reader.emit(DequantizeLinear(axis), stored, scale, zero))
            if isinstance(node.op, (Conv, MatMul)):
                self._convert_weight(function, node, value.name, parameters.scales[0])
        return stored

    def _convert_weight(
        self, function: Function, anchor: Node, point: str, input_scale: float
    ) -> None:
        """Store the weight of an anchor as bytes, and its bias as integers of the sums' scale."""
        weight, bias = anchor.operands[1], _Bias.of(anchor)
        assert isinstance(weight, Constant)
        least = LEAST_SCALE if bias is None else least_scales(bias.data, input_scale)
        chosen = quantize_weight(
            weight.data,
            column_axis(anchor),
            search=self.config.search_weights,
            least_scales=np.maximum(least, LEAST_SCALE),
        )
        if self.rounding is not None:
            chosen = self.rounding.rounded(
                [anchor.name],
                anchor.op,
                weight.data,
                chosen,
                divided=self._factors(point),
                centred=bias is not None and self.config.correct_bias,
            )
        b = Builder(function, anchor, name=weight.name, origins=anchor.origins)
        stored = b.constant(chosen.stored, f"{weight.name}.stored")
        scales = b.constant(chosen.scales, f"{weight.name}.scale")
        anchor.set_operand(1, b.emit(chosen.op, stored, scales))
        if bias is not None:
            data = bias.data - self._mean_error(anchor, point, chosen.dequantized() - weight.data)
            integers, sums = quantize_bias(data, input_scale, chosen.scales)
            bias.replace(function, f"{anchor.name}.bias", integers, sums)

    def _factors(self, point: str) -> Array | None:
        """What the channels of a point were divided by; None if they were not."""
        exponents = self.exponents.get(point)
        return None if exponents is None else np.ldexp(1.0, exponents)

    def _mean_error(self, anchor: Node, point: str, difference: Array) -> Array:
        """The mean error that a difference of the weight makes, which a bias takes back."""
        observed = self.observations.get(point)
        if not self.config.correct_bias or observed is None or observed.channels is None:
            return np.zeros((), np.float32)
        if self.rounding is not None:
            found = self.rounding.mean_error(anchor.name, anchor.op, difference)
            if found is not None:
                return found
        return expected_error(anchor.op, difference, observed.channels.mean)


@dataclass(frozen=True)
class _Bias:
    """A constant with a number for each column of an anchor's result: where it is added."""

    node: Node
    index: int
    data: Array

    @staticmethod
    def of(anchor: Node) -> _Bias | None:
        """The bias of an anchor: its operand, or what the only reader of its result adds."""
        match anchor:
            case Node(Conv(), [_, _, Constant(data)]):
                return _Bias(anchor, 2, data)
        match anchor.result.users:
            case [Node(Add(), [Value() as x, Constant(data)]) as add] if x is anchor.result:
                columns = anchor.result.type.shape[-1:]
                return _Bias(add, 1, data) if data.shape == columns else None
        return None

    def replace(self, function: Function, name: str, integers: Array, scales: Array) -> None:
        """Add dequantized integers instead."""
        b = Builder(function, self.node, name=name, origins=self.node.origins)
        stored, scale = b.constant(integers, f"{name}.stored"), b.constant(scales, f"{name}.scale")
        self.node.set_operand(self.index, b.emit(DequantizeLinear(0), stored, scale))


def _return(function: Function, value: Value, stored: Value) -> None:
    """Return what the integers of a value stand for instead of the value itself."""
    quantize = stored.producer
    assert quantize is not None
    b = Builder(function, quantize.after, name=f"{value.name}.real", origins=_origins(value))
    axis = max(0, value.type.rank - 1)
    real = b.emit(DequantizeLinear(axis), stored, *quantize.operands[1:])
    function.replace(value, real)
    quantize.set_operand(0, value)


def column_axis(anchor: Node) -> int:
    """The axis of the weight that runs along the columns of the result."""
    op = anchor.op
    return int(isinstance(op, MatMul) and not op.transpose_rhs)


def _origins(value: Value) -> Origins:
    return () if value.producer is None else value.producer.origins
