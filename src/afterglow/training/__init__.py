"""Training: of a graph that computes outputs, one that learns."""
