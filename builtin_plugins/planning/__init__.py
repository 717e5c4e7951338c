"""Plans turns, tells of their course, and learns from their outcomes which plans do well."""
