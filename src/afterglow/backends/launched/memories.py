"""The memories of a program that is launched, by name; others are inputs, outputs and states."""

ARENA, CONSTANTS, ALARMS, COUNTERS = "arena", "constants", "alarms", "counters"
HOST_PREFIX = "host."
"""How the names of sections begin that are of what the host runs."""
COUNTER_BYTES = 4
