"""Coverage-guided search for a datagram that the compiled switch cannot bear."""
