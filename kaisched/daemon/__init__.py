"""The process that goes on: loop, health, metrics, shutdown."""
