"""Reports: a run, or a whole demo, as one self-contained page that a person would show to others."""
