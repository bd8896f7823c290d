"""The actions of a cycle, and what they share: candidates, order, placing a job."""
