"""Where events go: rules, files, and the publishers that obey them."""
