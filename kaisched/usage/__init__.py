"""What each queue consumed lately: the port, its stores, and the windows they look through."""
