"""Side by side with peers: each file measures one part of Albertine against something else, in one run."""
