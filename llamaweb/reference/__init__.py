"""The description of all APIs for programs, for machines and for people."""
