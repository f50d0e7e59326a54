"""What is said of a run at its end: the summary, the section on statistics, the HTML report."""
