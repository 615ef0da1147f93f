"""The privacy certificate of a study that has ended."""
