"""Pure arithmetic on arrays: tables, the queue tree, fair division, refusals.

Nothing here knows the clock, the network, logging or the API objects. NumPy and the standard
library only (enforced by an import contract).
"""
