"""Options as JSON can hold them: for files that compile more, and for other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from afterglow.backends.policy import Policy
from afterglow.driver.options import Options
from afterglow.partition.config import PartitionConfig
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.profile import Profile
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.support.errors import UsageError

_OF_A_PROCESS = (
    *("threads", "streams", "shapes", "dims", "values", "partition", "rounding"),
    *("max_memory", "cache", "verify", "perf_map", "instruments", "progress"),
)
"""Options that are not saved with a model."""


def describe_options(options: Options) -> dict[str, Any]:
    """The options that a file stores to compile more in the same way, as JSON can hold them."""
    stored = {name: value for name, value in vars(options).items() if name not in _OF_A_PROCESS}
    profile, quantization = options.profile, options.quantization
    return {
        **stored,
        "policy": asdict(options.policy),
        "profile": None if profile is None else profile.text,
        "quantization": None if quantization is None else asdict(quantization),
        "devices": [device.to_json() for device in options.devices],
        "placing": _describe_placing(options.placing),
    }


def _describe_placing(config: PartitionConfig | None) -> dict[str, Any] | None:
    if config is None or config.is_data:
        return None if config is None else asdict(config)
    raise UsageError(
        "a file cannot hold the function that places nodes, and the model is compiled further",
        help="give the placement as a dictionary",
    )


def restore_options(data: Mapping[str, Any], **others: Any) -> Options:
    """Options that were described so, with others of this process."""
    restored = {**data, "policy": Policy(**data["policy"])}
    restored.update({name: tuple(data.get(name, ())) for name in ("keep", "allow")})
    if data.get("profile") is not None:
        restored["profile"] = Profile.parse(data["profile"])
    if data.get("quantization") is not None:
        restored["quantization"] = QuantizationConfig(**data["quantization"])
    restored["devices"] = tuple(map(LogicalDevice.of_json, data.get("devices", ())))
    if data.get("placing") is not None:
        restored["placing"] = PartitionConfig(**data["placing"])
    return Options(**restored, **others)
