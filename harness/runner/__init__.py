"""From a set and a target to results: selection, worker processes and their supervisor, the conclusion."""
