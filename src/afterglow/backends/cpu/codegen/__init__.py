"""From a planned program to linked machine code: plans, kernels, calls, control flow, constants."""
