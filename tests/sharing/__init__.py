"""Shared GPUs end to end: stand-ins for kubelets with device plugins, churn, and what must hold."""
