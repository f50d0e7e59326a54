"""The verdict on the run as a whole: what may be judged, the gates' reports, the baseline."""
