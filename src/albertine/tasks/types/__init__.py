"""The kinds of tasks: how examples of each become sequences, and what a head's scores say about them."""
