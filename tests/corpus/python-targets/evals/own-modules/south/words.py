greeting = "hola"
