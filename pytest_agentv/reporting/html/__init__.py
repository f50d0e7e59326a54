"""The HTML report: one file that opens offline. From results to a view of frozen records, to a page."""
