"""What backends share whose programs are launches of kernels on a device with memory of its own."""
