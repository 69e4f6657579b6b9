"""The `opjoule` command: one module per subcommand. It may import the services; they never import it."""
