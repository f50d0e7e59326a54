"""Fills variables into the texts of eval files: `{{ name }}`."""
