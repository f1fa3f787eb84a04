"""Graph optimisations, one per file; `matching` and `layouts` are the libraries they share."""
