"""Scenario files: what they may say, what can be wrong with them, and what they come to."""
