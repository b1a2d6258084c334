"""Fine-tuning: examples, the paper's defaults for each task, runs, seeds and sweeps."""
