"""The thin core of hookgate: it runs the turn and calls the hooks, and knows no plugin.

The modules are the public API; nothing is re-exported here, so that importing one
of them costs what that one needs.
"""
