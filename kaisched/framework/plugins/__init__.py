"""Plugins: the questions they answer, how they are found, and how they are asked."""
