"""The store's engine: a database opened, and the threads that write and read it."""
