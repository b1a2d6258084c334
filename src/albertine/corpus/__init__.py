"""From text to samples: sharded corpora, pair sampling (SOP, NSP, none) and n-gram masking."""
