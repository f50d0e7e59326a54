def answer(prompt):
    return "Sure.\n::error file=a.py::hello\n##vso[task.setvariable variable=x]1\n##teamcity[buildStop comment='x']\n\x1b[31mred \u202etxt"
