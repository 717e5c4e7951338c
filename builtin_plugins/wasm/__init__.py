"""Tools and channels that run in a sandbox: WebAssembly guests with grants and limits."""
