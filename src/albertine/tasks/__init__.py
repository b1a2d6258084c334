"""Downstream: task formats, fine-tuning, official metrics, ensembles, prediction."""
