"""What plugins are built with: tools from functions, content from files, tables, records.

Plugins import it, and the core does not.
"""
