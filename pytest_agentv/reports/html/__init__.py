"""The HTML report: from results to a page of Jinja2 templates."""
