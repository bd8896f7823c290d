"""Node pools: jobs with a list of pools, each owned by one shard at any moment."""
