"""Control flow: ops that carry functions."""
