"""Memory layouts of values: what they are, which ones nodes can work in, and the choice."""
