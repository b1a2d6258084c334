"""The tasks of the little world: examples with gold answers from event logs, in official file layouts."""
