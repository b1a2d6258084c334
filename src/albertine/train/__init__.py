"""One training loop for pre-training and fine-tuning: optimizers, schedules, checkpoints, distribution."""
