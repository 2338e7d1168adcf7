"""The detection power of the fixtures: wrong kernels and targets on purpose, and who catches them."""
