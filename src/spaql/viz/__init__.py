"""Charts, figures and pages: of data, or of anything that predicts; no agent class is known here."""
