"""Partitioned programs: parts of a model on several devices, as one artifact."""
