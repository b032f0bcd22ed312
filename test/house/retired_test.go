package house

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var lower = flag.Bool("lower", false, "lower the allowances of retired words, and of words of pages, to what is left")

const (
	retiredList       = "test/house/retired_words.md"
	retiredAllowances = "test/house/retired_words.txt"
)

// retired are the patterns of the list: of names that are split into words, as " most told ", of
// whole names, and of prose in one line; comment has what no comment may have.
type retired struct{ name, exact, prose, comment *regexp.Regexp }

var nameWord = regexp.MustCompile(`[A-Z]+(?:[a-z0-9]+|$)|[A-Z]+|[a-z0-9]+`)

// split returns the words of a name in lower case, each between blanks. A bound needs a noun to be
// one: "most" alone and "at least" are English.
func split(name string) string {
	words := " " + strings.ToLower(strings.Join(nameWord.FindAllString(name, -1), " ")) + " "
	switch words {
	case " most ", " least ":
		return ""
	}
	return strings.NewReplacer(" at least ", " ", " at most ", " ").Replace(words)
}

func readRetired(t *testing.T) retired {
	t.Helper()
	raw, err := os.ReadFile(retiredList)
	if err != nil {
		t.Fatal(err)
	}
	var names, exact, prose, comments []string
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[1]) == "Retired" {
			continue
		}
		words, _, _ := strings.Cut(strings.TrimSpace(cells[1]), " (")
		for word := range strings.SplitSeq(words, ", ") {
			switch in := strings.TrimSpace(cells[2]); in {
			case "name":
				names = append(names, strings.ToLower(strings.Join(nameWord.FindAllString(word, -1), " ")))
			case "name, without break":
				names = append(names, "(?:^ |[^k] )"+word)
			case "exact":
				exact = append(exact, word)
			case "prose":
				prose = append(prose, word)
			case "comments, begins a sentence":
				comments = append(comments, strings.ToUpper(word[:1])+word[1:])
			default:
				t.Fatalf("%s: %q is retired in %q, which the test does not know", retiredList, words, in)
			}
		}
	}
	if len(names) < 50 || len(prose) < 15 || len(comments) < 2 {
		t.Fatalf("%s: %d names, %d phrases and %d of comments are read", retiredList, len(names), len(prose), len(comments))
	}
	return retired{
		name:    regexp.MustCompile(`(?:^| )(?:` + strings.Join(names, "|") + `) `),
		exact:   regexp.MustCompile(`^(?:` + strings.Join(exact, "|") + `)$`),
		prose:   regexp.MustCompile(`(?i)\b(?:` + strings.Join(prose, "|") + `)\b`),
		comment: regexp.MustCompile(`\b(?:` + strings.Join(comments, "|") + `)\b|^Test\w+: (?:` + strings.ToLower(strings.Join(comments, "|")) + `)\b`),
	}
}

// find is what a Go file has of retired words: in what it declares, and in its comments.
func (r retired) find(f *ast.File) []string {
	var out []string
	declare := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if r.exact.MatchString(id.Name) || r.name.MatchString(split(id.Name)) {
				out = append(out, id.Name)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			declare(n.Name)
		case *ast.TypeSpec:
			declare(n.Name)
		case *ast.Field:
			declare(n.Names...)
		case *ast.ValueSpec:
			declare(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					if id, ok := e.(*ast.Ident); ok {
						declare(id)
					}
				}
			}
		}
		return true
	})
	return append(out, r.inComments(f)...)
}

// inComments is what a Go file has of retired words in its comments.
func (r retired) inComments(f *ast.File) (out []string) {
	for _, c := range f.Comments {
		out = append(out, r.prose.FindAllString(strings.Join(strings.Fields(c.Text()), " "), -1)...)
	}
	return out
}

// area is the part of the tree that an allowance is for, so that code may move within it.
func area(path string) string {
	parts := strings.Split(filepath.ToSlash(path), "/")
	return strings.Join(parts[:min(2, len(parts)-1)], "/")
}

// TestRetiredWords: no comment begins a sentence with a word that is retired there, no folder has
// more words of the list of retired words than it is allowed, and allowances only go down. Of tests
// the comments count, with an allowance of their own, and not the names. After words were replaced,
//
//	go test ./test/house -run TestRetiredWords -lower
//
// writes the new numbers.
func TestRetiredWords(t *testing.T) {
	r := readRetired(t)
	found := map[string]map[string]int{}
	note := func(path string, words []string) {
		a := area(path)
		if found[a] == nil {
			found[a] = map[string]int{}
		}
		for _, w := range words {
			found[a][strings.ToLower(w)]++
		}
	}
	fset := token.NewFileSet()
	for _, s := range parseTree(t) {
		if strings.HasPrefix(filepath.Base(s.path), "zz_generated") {
			continue
		}
		f, err := parser.ParseFile(fset, s.path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if s.test {
			note(area(s.path)+":tests/x", r.inComments(f))
		} else {
			note(s.path, r.find(f))
		}
		for _, c := range f.Comments {
			if word := r.comment.FindString(c.Text()); word != "" {
				t.Errorf("%s: a comment begins a sentence with %q: %s says what to write in its place", fset.Position(c.Pos()), word, retiredList)
			}
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(pages, decisions...) {
		raw, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		note("docs/x", r.prose.FindAllString(strings.Join(strings.Fields(string(raw)), " "), -1))
	}
	allowed := map[string]int{}
	raw, err := os.ReadFile(retiredAllowances)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var folder string
		var n int
		if _, err := fmt.Sscan(line, &folder, &n); err != nil {
			t.Fatalf("%s: %q: %v", retiredAllowances, line, err)
		}
		allowed[folder] = n
	}
	var text strings.Builder
	for _, a := range slices.Sorted(maps.Keys(found)) {
		n := 0
		for _, of := range found[a] {
			n += of
		}
		if n > allowed[a] {
			t.Errorf("%s has %d retired words, and %d are allowed: %s says what to write in their place of\n%s", a, n, allowed[a], retiredList, often(found[a]))
		}
		if n = min(n, allowed[a]); n > 0 {
			fmt.Fprintln(&text, a, n)
		}
	}
	if *lower {
		if err := os.WriteFile(retiredAllowances, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// often lists words, the most frequent first.
func often(words map[string]int) string {
	names := slices.SortedFunc(maps.Keys(words), func(a, b string) int {
		if words[a] != words[b] {
			return words[b] - words[a]
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, w := range names[:min(len(names), 40)] {
		out = append(out, fmt.Sprintf("%s (%d)", w, words[w]))
	}
	return strings.Join(out, ", ")
}
