"""The task types, one file each; `tasks.registry` lists them."""
