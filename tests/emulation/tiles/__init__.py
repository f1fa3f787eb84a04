"""AMX in software: for tests of code for machines with tiles, and for counts of what it does."""
