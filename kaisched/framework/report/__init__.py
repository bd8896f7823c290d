"""What a cycle tells: its result, and why jobs wait, in codes and in sentences."""
