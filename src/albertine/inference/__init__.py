"""Using trained models: pipelines, prediction, evaluation, ensembles, fill-mask."""
