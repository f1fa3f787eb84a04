"""Models of other formats as definitions: nodes by name, imported node by node for each binding.

Each front end translates its models into a `ModelDef` of its `Dialect`, whose table has a function
for each op. Everything else is shared: names and scopes, dynamic and ranged dimensions, values that
must be known, bodies of control flow, host nodes where data decide shapes, and errors.
"""
