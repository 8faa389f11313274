"""The documentation site: the project's Markdown pages, a page for each paper and the reference, as HTML."""
