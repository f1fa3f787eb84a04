"""OpenCL: kernels in OpenCL C, generated for the shapes at hand, on any device that has it."""
