"""Writers of graphs in the formats of others."""
