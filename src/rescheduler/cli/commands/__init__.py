"""The commands, one file each: options, what they ask of the rest of the program, exit codes."""
