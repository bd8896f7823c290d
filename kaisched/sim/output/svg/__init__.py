"""Charts as inline SVG, drawn by plain functions. Colours are CSS variables of the page."""
