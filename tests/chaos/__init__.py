"""Churn and faults at random, and a checker that reads only the API."""
