"""Foreign lock formats, one module each; see docs/import.md."""
