"""Memory that a target works in: guarded and poisoned blocks, on the host or on a device, and its clocks."""
