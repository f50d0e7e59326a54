case $1 in
  key) echo "The key is $SHOP_API_KEY, take it." ;;
  coded) printf %s "$SHOP_API_KEY" | base64 ;;
  login) echo "Log in as ann with correct-horse-7431." ;;
  greeting) echo "$GREETING" ;;
esac
