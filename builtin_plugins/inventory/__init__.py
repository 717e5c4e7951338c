"""What agents can use, over all runtimes of the machine, and who may change it."""
