package house

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const (
	pageAllowances = "test/house/page_words.txt"
	// goalWords is how long all pages are at most in the end, goalPage one page, and goalDecision
	// one decision.
	goalWords, goalPage, goalDecision = 22000, 600, 300
)

var (
	codeBlock  = regexp.MustCompile("(?ms)^ *```.*?^ *```|^(?:    |\t).*?$")
	remark     = regexp.MustCompile(`<!--.*?-->`)
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	namedTest  = regexp.MustCompile("`Test\\w+`")
)

// proseWords counts what has to be read of a page: words with a letter or a digit, without blocks
// of code, targets of links, and names of tests.
func proseWords(text string) int {
	text = codeBlock.ReplaceAllString(text, "")
	text = remark.ReplaceAllString(text, "")
	text = linkTarget.ReplaceAllString(text, "]")
	text = namedTest.ReplaceAllString(text, "")
	n := 0
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// TestPageLength: the pages that are written by hand (docs without docs/reference, README,
// CONTRIBUTING, SECURITY) are no longer than a list allows, each and together, and allowances only
// go down. After pages were shortened,
//
//	go test ./test/house -run TestPageLength -lower
//
// writes the new numbers, rounded up to leave room for a sentence.
func TestPageLength(t *testing.T) {
	pages := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	allowed := map[string]int{}
	raw, err := os.ReadFile(pageAllowances)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var page string
		var n int
		if _, err := fmt.Sscan(line, &page, &n); err != nil {
			t.Fatalf("%s: %q: %v", pageAllowances, line, err)
		}
		allowed[page] = n
	}
	up := func(n, to int) int { return (n + to - 1) / to * to }
	next, total := map[string]int{}, 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		n, goal := proseWords(string(text)), goalPage
		if strings.HasPrefix(page, "docs/decisions/") {
			goal = goalDecision
		}
		total += n
		most := max(goal, allowed[page])
		if n > most {
			t.Errorf("%s has %d words, and at most %d are allowed (goal %d): shorten it, or say a thing once and link to it; what programs know belongs to docs/reference", page, n, most, goal)
		}
		if most = min(most, up(n, 50)); most > goal {
			next[page] = most
		}
	}
	most := max(goalWords, allowed["total"])
	if total > most {
		t.Errorf("all pages have %d words, and at most %d are allowed (goal %d)", total, most, goalWords)
	}
	if most = min(most, up(total, 200)); most > goalWords {
		next["total"] = most
	}
	t.Logf("%d words in %d pages; goal %d", total, len(pages), goalWords)
	if *lower {
		var text strings.Builder
		for _, page := range slices.Sorted(maps.Keys(next)) {
			fmt.Fprintln(&text, page, next[page])
		}
		if err := os.WriteFile(pageAllowances, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
