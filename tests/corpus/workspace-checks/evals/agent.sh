#!/bin/sh
# Do what the prompt says.
case "$(cat)" in
  fix) sed -i 's/return 0/return sum(prices)/' src/shop.py; mkdir out; echo '{"fixed": 1}' > out/report.json; ls -R > seen.txt ;;
  cheat) mkdir -p tests; echo mine > answer.txt ;;
  leak) echo "key $SHOP_API_KEY" > key.txt ;;
  remove) rm README.md ;;
  silent) exit 0 ;;
esac
echo done in "$(basename "$PWD")"
