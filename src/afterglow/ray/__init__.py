"""Compiled models on the machines of a Ray cluster: served, over data sets, and in stages.

Needs the extra `ray`. Importing it starts nothing; call `ray.init` first.
"""

from afterglow.ray.batches import predict
from afterglow.ray.deployment import deployment
from afterglow.ray.node_files import StoredModel, store
from afterglow.ray.pipeline import Pipeline, PipelineStatistics

__all__ = ["Pipeline", "PipelineStatistics", "StoredModel", "deployment", "predict", "store"]
