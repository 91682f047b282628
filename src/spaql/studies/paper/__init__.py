"""The paper's whole study in one command, and what of it survives fresh evaluation."""
