"""The whole of it in minutes: text, vocabulary, corpus, two networks, three tasks, a report."""
