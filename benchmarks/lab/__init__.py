"""Benchmarks that answered one question once; README.md names each question and its answer."""
