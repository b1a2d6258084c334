"""Inference: pipelines, predictions for files, evaluation, ensembles, fill-mask."""
