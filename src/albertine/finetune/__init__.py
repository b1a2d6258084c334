"""Fine-tuning: preparation, the paper's hyperparameters for each task, runs, seeds and sweeps."""
