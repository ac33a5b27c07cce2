"""Maps of a release: one offline HTML file with flows, distances and certificate, or a page of a site."""
