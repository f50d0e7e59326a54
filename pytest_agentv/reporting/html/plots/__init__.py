"""What the plots show. Labels are HTML, so that they stay readable on a narrow screen; only marks are SVG."""
