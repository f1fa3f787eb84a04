"""Finding the layer, the pass and the few nodes that make a model compute something else."""
