"""Charts, figures and pages."""
