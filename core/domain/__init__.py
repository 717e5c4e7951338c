"""What plugins and the core share: values, keys and errors, with no behaviour of a gateway."""
