"""Pages of reference that are generated from the code: one module for each."""
