WORD = "hello"
