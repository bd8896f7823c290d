"""The suite without the package of the default fairness policy, another policy in its place."""
