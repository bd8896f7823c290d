"""Which waiting jobs an action tries, and in which order."""
