"""Reports on models: parameters, operations and memory, and the tables and figures of the ALBERT paper."""
