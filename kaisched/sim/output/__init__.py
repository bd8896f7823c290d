"""Output of a simulation: tables, files, pictures and a report."""
