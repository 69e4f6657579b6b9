"""Where results go: the results topics; InfluxDB later."""
