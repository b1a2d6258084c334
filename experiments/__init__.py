"""Research code: screens ideas for pre-training against each other in equal time; see README.md."""
