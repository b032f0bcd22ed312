package historycmd

import "strings"

const (
	// mostCompared bounds the lines of two texts that are compared, multiplied.
	mostCompared = 4_000_000
	// diffContext is how many lines that are the same stand around a difference.
	diffContext = 3
)

// lineDiff returns how one text becomes another, line by line: "- " for what goes, "+ " for what
// comes, "  " for what stays around it.
func lineDiff(before, after string) []string {
	a, b := splitLines(before), splitLines(after)
	var marked []string
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	for _, l := range a[:head] {
		marked = append(marked, "  "+l)
	}
	marked = append(marked, middleDiff(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		marked = append(marked, "  "+l)
	}
	return aroundChanges(marked)
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// middleDiff keeps the longest common part; of what is too long to be compared it keeps nothing.
func middleDiff(a, b []string) []string {
	var out []string
	if len(a)*len(b) > mostCompared {
		for _, l := range a {
			out = append(out, "- "+l)
		}
		for _, l := range b {
			out = append(out, "+ "+l)
		}
		return out
	}
	common := make([][]int, len(a)+1) // of what follows
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, "  "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "- "+a[i])
			i++
		default:
			out = append(out, "+ "+b[j])
			j++
		}
	}
	return out
}

// aroundChanges leaves out what stays, far from what changes.
func aroundChanges(marked []string) []string {
	near := make([]bool, len(marked))
	changes := false
	for i, l := range marked {
		if strings.HasPrefix(l, "  ") {
			continue
		}
		changes = true
		for k := max(0, i-diffContext); k <= min(len(marked)-1, i+diffContext); k++ {
			near[k] = true
		}
	}
	if !changes {
		return nil
	}
	var out []string
	for i, l := range marked {
		switch {
		case near[i]:
			out = append(out, l)
		case len(out) == 0 || out[len(out)-1] != "  ...":
			out = append(out, "  ...")
		}
	}
	return out
}
