"""Small clusters whose right answer was worked out by hand, each once decided wrongly."""
