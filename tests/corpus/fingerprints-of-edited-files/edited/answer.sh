echo the script is asked >> ../calls.txt
echo bye
