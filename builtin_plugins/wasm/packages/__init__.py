"""What a plugin folder says and may do: its manifest, its grants, and who has accepted both."""
