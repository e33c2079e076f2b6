"""One supervisor a host: turns enabled model configs into engine processes and keeps them alive."""
