"""How the processes are started."""
