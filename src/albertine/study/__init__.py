"""Studies: claims about ALBERT as files, each tested by training runs with several seeds.

- `claim`: what a claim file contains.
- `catalog`: the claims of the paper, and those of the user.
- `protocol`: how much text, training and evaluation a claim gets at each scale.
- `data`: the text, the tokenizer and the corpus of a protocol.
- `study_run`: one pre-training run and its measurements, in a folder named by a hash of all that matters.
- `verdicts`: what paired differences over seeds say about a claim.
- `study`: tests claims, and writes their pages.
"""
