"""Engine: builds policies from shards; plans, recordings, lint and migration."""
