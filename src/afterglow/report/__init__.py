"""Reports about compiled models: benchmarks, profiles, and the choice of algorithms."""
