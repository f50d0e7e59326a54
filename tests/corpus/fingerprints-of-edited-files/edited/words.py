WORD = "bye"
