"""The long-running process: loop, health, metrics, shutdown."""
