"""Pod sets with Kueue's annotations: how many pods each domain of the last level gets."""
