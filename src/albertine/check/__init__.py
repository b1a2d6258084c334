"""`albertine check`: what will go wrong with data before a vocabulary, a corpus or a model is made of it.

One file per kind of finding; `check.py` reads the data once and gives each text to all of them.
"""
