"""Checks of a cluster for what would keep the scheduler from doing its work."""
