"""Runs WebAssembly of strangers: bytes in, bytes out, and every limit on.

It knows no manifest and no gateway: what a guest is granted comes as names of imports, as
`WasiGrants` and as functions of the host.
"""
