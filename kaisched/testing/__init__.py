"""Tests of policies as pictures, clusters in a few lines, and the conformance kit for plugins."""
