"""Language models of the Llama family: one graph, whatever kind of file the weights are in."""
