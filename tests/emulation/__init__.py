"""Runs code for machines that are not here: in emulators, with memory laid out by hand."""
