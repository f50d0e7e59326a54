"""The HTML report, one file that opens offline: from results to a view of frozen records, and to a page."""
