WORD = "good evening"
