"""Evaluators made of others."""
