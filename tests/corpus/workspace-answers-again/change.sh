echo two > shop/notes.txt
