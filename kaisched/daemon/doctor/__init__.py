"""Looks over a cluster, and says what would keep the scheduler from doing its work."""
