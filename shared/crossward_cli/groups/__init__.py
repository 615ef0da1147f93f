"""The command groups: one file per noun, arguments and help only. What a command does it loads when it is called."""
