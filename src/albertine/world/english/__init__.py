"""The little world's English: its words, its inflection, how events are told and asked about."""
