"""What tells about code: listings, profiles, measurements of kernels, and runs that are checked."""
