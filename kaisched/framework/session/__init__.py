"""The working state of one cycle: amounts, placements, tentative moves and what they led to."""
