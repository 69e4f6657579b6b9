"""Where results go: the results topics, and the journal's outbox for a time series store."""
