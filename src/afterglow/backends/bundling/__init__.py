"""What bundles of all backends have in common: names in C, and the list of their files."""
