"""What makes the network fast on a given machine; each file has a plain equivalent in `model/`."""
