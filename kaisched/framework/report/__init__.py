"""The report of a cycle: its result, and why jobs wait, in codes and in sentences."""
