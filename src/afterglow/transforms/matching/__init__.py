"""What rewrite rules match on: predicates, patterns, polynomials, attention and norms."""
