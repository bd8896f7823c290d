"""What a simulation leaves behind: tables, files, pictures and a report."""
