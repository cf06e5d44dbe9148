"""The command `weightspace`."""
