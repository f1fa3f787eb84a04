"""The driver: options, pipelines, and compiling a model from end to end."""
