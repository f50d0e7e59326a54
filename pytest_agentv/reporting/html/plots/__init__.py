"""The data of the plots. Labels are HTML, so that they are readable on a narrow screen. Only marks are SVG."""
