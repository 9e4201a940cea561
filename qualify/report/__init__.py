"""Results as pages: one HTML file each, pictures in SVG, no script, nothing to fetch."""
