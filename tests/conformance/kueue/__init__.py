"""Cases of Kueue's own tests, asked of the policy `fair-sharing` in its compatible mode."""
