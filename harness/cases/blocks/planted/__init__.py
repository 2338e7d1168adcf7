"""Building blocks of planted steps: the head, the wrong inputs, and the proof that each of them shows."""
