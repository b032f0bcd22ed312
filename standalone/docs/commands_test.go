package docs_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// first is the page that starts a control plane, with a simulated cloud; live are the pages whose
// commands are about one that runs. They go on with that of the first.
const first = "README.md"

var live = []string{"docs/aws-rights.md", "docs/operate.md", "docs/ask.md"}

// quickstart makes what those pages speak of, which the first one deletes at its end.
const quickstart = `kubectl apply -f config/samples/quickstart.yaml && bin/nephele status --wait`

// TestCommands runs them.
func TestCommands(t *testing.T) {
	for _, program := range []string{"kubectl", "curl", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("THIS TEST DID NOT RUN: the commands of the pages need %s: %v", program, err)
		}
	}
	pages, err := readPages()
	if err != nil {
		t.Fatal(err)
	}
	ran, left := 0, 0
	for _, p := range pages {
		for _, c := range p.commands {
			if c.notRun == "" {
				ran++
			} else {
				left++
			}
		}
	}
	t.Logf("%d commands are run, %d are marked as not to be run", ran, left)
	if ran < 40 {
		t.Errorf("only %d commands are run: are the pages read rightly?", ran)
	}
	for _, p := range pages {
		if p.name != first && !slices.Contains(live, p.name) && p.runs() {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				s := open(t)
				s.page(t, p)
			})
		}
	}
	t.Run("live", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		for _, p := range pages {
			if p.name == first && !t.Run(p.name, func(t *testing.T) { s.page(t, p) }) {
				return
			}
		}
		s.must(quickstart)
		for _, p := range pages {
			if slices.Contains(live, p.name) {
				t.Run(p.name, func(t *testing.T) { s.page(t, p) })
			}
		}
	})
}

func (p *page) runs() bool {
	return slices.ContainsFunc(p.commands, func(c command) bool { return c.notRun == "" })
}

// looks tells commands that only look, and so may be repeated until they show what they will.
var looks = regexp.MustCompile(`^(bin/)?(nephele (explain|reach|rules|status|plan|check) |kubectl (nephele|get|wait) |nephele status$)`)

// page runs the commands of a page.
func (s *shell) page(t *testing.T, p page) {
	for _, c := range p.commands {
		if c.notRun != "" {
			continue
		}
		until := time.Now()
		if looks.MatchString(c.text + " ") {
			until = until.Add(2 * time.Minute)
		}
		for {
			output, code := s.run(c.text)
			missing, ok := like(output, c.output)
			if code == c.exit && ok {
				break
			}
			if time.Now().After(until) {
				t.Errorf("%s: %s\nexit code %d, expected %d; not shown: %q; it printed:\n%s", c.at, c.text, code, c.exit, missing, output)
				break
			}
			time.Sleep(300 * time.Millisecond)
		}
		if t.Failed() {
			return // what follows builds on it
		}
	}
}

// TestHelpKnows holds every command line of nephele that a page names against the help: there is
// such a command, and it has these flags.
func TestHelpKnows(t *testing.T) {
	pages, err := readPages()
	if err != nil {
		t.Fatal(err)
	}
	help := map[string]string{}
	ask := func(words []string) string {
		key := strings.Join(words, " ")
		if _, ok := help[key]; !ok {
			out, err := exec.Command(filepath.Join(root, "bin/nephele"), append(slices.Clone(words), "--help")...).CombinedOutput()
			if err != nil {
				t.Fatalf("nephele %s --help: %v\n%s", key, err, out)
			}
			help[key] = string(out)
		}
		return help[key]
	}
	for _, p := range pages {
		for _, c := range slices.Concat(p.commands, p.inline) {
			for _, words := range nepheleCalls(c.text) {
				checkCall(t, c, words, ask)
			}
		}
	}
	if len(help) < 15 {
		t.Errorf("only %d commands of nephele are named", len(help))
	}
}

// nepheleCalls are the words behind each nephele of a command line.
func nepheleCalls(text string) [][]string {
	var out [][]string
	text, _, _ = strings.Cut(strings.ReplaceAll(text, "\\\n", " "), " #")
	for _, part := range regexp.MustCompile(`[|;&]|<\(|\$\(`).Split(text, -1) {
		words := strings.Fields(part)
		if len(words) > 0 && words[0] == "kubectl" {
			words = words[1:]
		}
		if len(words) > 0 && (words[0] == "nephele" || words[0] == "bin/nephele") {
			out = append(out, words[1:])
		}
		if len(words) > 0 && words[0] == "nephele-agent" { // has the same commands
			out = append(out, append([]string{"agent"}, words[1:]...))
		}
	}
	return out
}

var commandWord = regexp.MustCompile(`^[a-z][a-z-]*$`)

// checkCall follows the words through the subcommands and looks for the flags.
func checkCall(t *testing.T, c command, words []string, ask func([]string) string) {
	var path []string
	for len(words) > 0 && commandWord.MatchString(words[0]) && lists(ask(path), words[0]) {
		path, words = append(path, words[0]), words[1:]
	}
	if len(path) == 0 && len(words) > 0 && commandWord.MatchString(words[0]) {
		t.Errorf("%s: %s: there is no such command of nephele", c.at, c.text)
		return
	}
	for _, w := range words {
		name, _, _ := strings.Cut(strings.Trim(w, "[]()'\",.:;"), "=")
		if strings.HasPrefix(name, "--") && len(name) > 2 && !regexp.MustCompile(regexp.QuoteMeta(name)+`\b`).MatchString(ask(path)) {
			t.Errorf("%s: %s: nephele %s has no flag %s", c.at, c.text, strings.Join(path, " "), name)
		}
	}
}

// lists reports whether a help lists a subcommand.
func lists(help, word string) bool {
	return regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(word) + `\s`).MatchString(help)
}

// TestLike holds the comparison against what it must tell apart.
func TestLike(t *testing.T) {
	const output = "NAME   STATE\ni-075d  running 12s\nvm/a   Allow  by shop/x"
	for _, c := range []struct {
		shown string
		want  bool
	}{
		{"NAME STATE", true}, {"i-9 running 3s", true}, {"i-9 stopped 3s", false}, {"vm/a Allow by shop/y", false}, {"vm/a ... shop/x", true},
		{"vm/a Allow\nNAME STATE", false}, {"NAME STATE\n...\nvm/a Allow by shop/x", true},
	} {
		if _, ok := like(output, strings.Split(c.shown, "\n")); ok != c.want {
			t.Errorf("%q: %t", c.shown, ok)
		}
	}
}
