"""The demo: the whole workflow in minutes, from text to a pre-trained model, three tasks and a report."""
