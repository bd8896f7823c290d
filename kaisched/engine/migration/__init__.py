"""Migration from other schedulers: their exported settings as files of ours."""
