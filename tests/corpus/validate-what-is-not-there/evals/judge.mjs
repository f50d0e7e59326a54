// a judge
