"""The order of least peak memory: what the memory is, and the search for the order.

- `problem`: steps, and the buffers that they touch; what an order costs.
- `model`: the problem that a function poses.
- `late`: steps that come after others although they need nothing of them.
- `orders`: quick orders: depth first, and greedy.
- `search`: an order within a bound, by a search that is exhaustive as far as it goes.
- `solve`: cuts a problem into parts, and takes the best of all that for each.
"""
