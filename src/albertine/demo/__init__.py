"""The demo: the whole workflow in minutes, from text to two pre-trained models, three tasks and a report."""
