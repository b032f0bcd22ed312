# Sourced by the scripts that write what they measure into docs/reference/figures.md, from the root of the
# project.
page=docs/reference/figures.md

# row NAME VALUE puts the value into the second cell of the row of that name; cells NAME VALUES puts
# values, divided by " | ", into all cells but the first.
row() { put "$1" "$2" second; }
cells() { put "$1" "$2" all; }
put() {
	local work
	work=$(mktemp)
	NAME=$1 VALUE=$2 WHICH=$3 awk '
		BEGIN { start = "| " ENVIRON["NAME"] " | " }
		index($0, start) == 1 {
			rest = substr($0, length(start) + 1)
			print start ENVIRON["VALUE"] (ENVIRON["WHICH"] == "all" ? " |" : substr(rest, index(rest, " |")))
			found = 1
			next
		}
		{ print }
		END { if (!found) { print "no row: " ENVIRON["NAME"] > "/dev/stderr"; exit 1 } }' "$page" >"$work"
	cp "$work" "$page"
	rm "$work"
	echo "$1: $2"
}
