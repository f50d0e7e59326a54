"""Shows the end of a run: the summary, the section on statistics, the HTML report."""
