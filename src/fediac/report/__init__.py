"""``fediac report``: what runs wrote, as one page, as Markdown or as CSV."""
