"""Past the paper: what each mechanism of SPAQL is worth, and what SPAQL does on problems nobody tuned it on."""
