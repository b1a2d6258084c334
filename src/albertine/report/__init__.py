"""Reports: a run or a demo as one self-contained HTML page."""
