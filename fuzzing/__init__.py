"""Fuzzing: made models, files and inputs that must end in a result or in an `AfterglowError`."""
