echo the script is asked >> ../calls.txt
echo hello from a script
