"""Tests of the terminal."""
