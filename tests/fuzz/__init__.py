"""Looking for new examples in all laws: ``make fuzz``."""
