WORD = "hello from a module"
