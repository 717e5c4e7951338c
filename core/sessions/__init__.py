"""Who answers a message, and in which order; in this process, where no plugin says otherwise."""
