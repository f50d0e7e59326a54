"""Asks the APIs of models directly. One file per API builds requests from settings and messages, and reads replies.

An API file builds and reads plain data. `client.py` is the only file that knows the network.
"""
