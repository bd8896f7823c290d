"""The working state of one cycle: amounts, placements, tentative moves and decisions."""
