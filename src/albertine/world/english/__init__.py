"""The English of the little world: lexicon, inflection, and the wordings of events, questions and claims."""
