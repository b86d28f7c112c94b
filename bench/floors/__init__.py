"""Programs that do as little as a program of their kind can: what the benches compare with."""
