"""Graph optimisations, one a file."""
