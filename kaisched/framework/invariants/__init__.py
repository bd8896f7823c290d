"""What must hold after every cycle, whatever the policy."""
