"""Decisions of a push: what a node said, what it lacks, what proves that it has the image."""
