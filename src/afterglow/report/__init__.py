"""What can be said about a compiled model: how fast it is, where time goes, what was chosen."""
