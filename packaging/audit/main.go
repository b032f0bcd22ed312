// Command audit looks at what others have made that is in our programs: whether vulnerabilities of
// it are known, and under which licences it is. It also checks our own advisories.
//
// A database that gives no answer fails nothing: one line that begins with "not proven:" says why.
// What is found fails, unless exceptions.json beside this has a reason that has not run out; so
// does an exception that nothing needs any more.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/packaging/advisory"
	"github.com/nephele-io/nephele/packaging/licence"
)

func main() {
	root := flag.String("root", "..", "root of the repository")
	list := flag.Bool("licences", false, "print the licence of every module, and check nothing")
	flag.Parse()
	if err := run(context.Background(), *root, *list, os.Stdout, time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

// Where these are, below the root.
const (
	advisories     = "advisories"
	exceptionsFile = "packaging/audit/exceptions.json"
)

// finding is something that needs a reason.
type finding struct{ Kind, ID, Module, What string }

// The kinds of findings.
const (
	vulnerability = "vulnerability"
	licenced      = "licence"
)

// answerWithin is how long somebody else may take. The first time tools are compiled, too.
const answerWithin = 5 * time.Minute

// errAway is why nothing can be said: somebody else does not answer.
var errAway = errors.New("no answer")

// away is errAway with the reason, in one line.
func away(who, reason string) error {
	reason = strings.Join(strings.Fields(reason), " ")
	return fmt.Errorf("%s: %w: %.300s", who, errAway, cmp.Or(reason, "it says nothing"))
}

// endsWithin is how long a program that was told to end may go on.
const endsWithin = 10 * time.Second

// command is a program that ends with ctx. "go tool" hands an interrupt on to the tool, which a
// kill would leave behind with the pipe that is read here.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, endsWithin
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

func run(ctx context.Context, root string, list bool, out io.Writer, now time.Time) error {
	if list {
		all, err := licence.Modules(ctx, root, modules...)
		fmt.Fprint(out, licence.Text(all))
		return err
	}
	if err := advisory.Check(os.DirFS(filepath.Join(root, advisories))); err != nil {
		return fmt.Errorf("our own advisories: %w", err)
	}
	exceptions, err := readExceptions(filepath.Join(root, exceptionsFile), now)
	if err != nil {
		return err
	}
	said, err := advisory.Stated(os.DirFS(filepath.Join(root, advisories)))
	if err != nil {
		return fmt.Errorf("our own advisories: %w", err)
	}
	if err := unstated(exceptions, said); err != nil {
		return err
	}
	var found []finding
	asked := map[string]bool{}
	for _, part := range []struct {
		what, kind string
		ask        func(context.Context, string) ([]finding, error)
	}{
		{"vulnerabilities of Go modules", "go", goVulnerabilities}, {"vulnerabilities of npm packages", "npm", npmVulnerabilities}, {"licences", licenced, licences},
	} {
		bounded, cancel := context.WithTimeout(ctx, answerWithin)
		got, err := part.ask(bounded, root)
		late := bounded.Err() != nil
		cancel()
		switch {
		case late:
			fmt.Fprintf(out, "not proven: %s: no answer within %s\n", part.what, answerWithin)
			continue
		case errors.Is(err, errAway):
			fmt.Fprintf(out, "not proven: %s: %v\n", part.what, err)
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", part.what, err)
		}
		asked[part.kind] = true
		fmt.Fprintf(out, "%s: %d need a reason\n", part.what, len(got))
		found = append(found, got...)
	}
	return judge(found, exceptions, asked["go"] && asked["npm"], asked[licenced])
}

// exception is why something that was found is let be, and for how long.
type exception struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Module string `json:"module"`
	Reason string `json:"reason"`
	// Until is the last day, YYYY-MM-DD.
	Until string `json:"until"`
}

// longest is how far ahead an exception may end: somebody looks at each once a year.
const longest = 366 * 24 * time.Hour

func readExceptions(file string, now time.Time) ([]exception, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var all []exception
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var errs []error
	for _, e := range all {
		until, err := time.Parse(time.DateOnly, e.Until)
		switch {
		case e.Kind != vulnerability && e.Kind != licenced, e.ID == "", e.Module == "", len(e.Reason) < 20:
			errs = append(errs, fmt.Errorf("%s: %+v: want kind (%s or %s), id, module, and a reason of a sentence", file, e, vulnerability, licenced))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %s of %s: until %q: want YYYY-MM-DD", file, e.ID, e.Module, e.Until))
		case now.After(until.Add(24 * time.Hour)):
			errs = append(errs, fmt.Errorf("%s: %s of %s: the exception has ended on %s: look again", file, e.ID, e.Module, e.Until))
		case until.Sub(now) > longest:
			errs = append(errs, fmt.Errorf("%s: %s of %s: until %s: want a day within a year", file, e.ID, e.Module, e.Until))
		}
	}
	return all, errors.Join(errs...)
}

// unstated fails for exceptions of which users are not told.
func unstated(exceptions []exception, said map[string]bool) error {
	var errs []error
	for _, e := range exceptions {
		if e.Kind == vulnerability && !said[e.ID] {
			errs = append(errs, fmt.Errorf("%s: %s of %s: want a statement about it below %s/vex, for users", exceptionsFile, e.ID, e.Module, advisories))
		}
	}
	return errors.Join(errs...)
}

// remedies are what to do about a finding. That a commit passed before is no contradiction:
// vulnerabilities become known later.
var remedies = map[string]string{
	vulnerability: "it may have become known after this commit: require a version with a fix, or say in " + exceptionsFile + " why it does not matter",
	licenced:      "use another module, or say in " + exceptionsFile + " why it may be there",
}

// judge fails for what has no exception, and for exceptions that nothing needs. Whether nothing
// needs one is known only if all was asked.
func judge(found []finding, exceptions []exception, allVulnerabilities, allLicences bool) error {
	var errs []error
	used := map[exception]bool{}
	for _, f := range found {
		i := slices.IndexFunc(exceptions, func(e exception) bool { return e.Kind == f.Kind && e.ID == f.ID && e.Module == f.Module })
		if i < 0 {
			errs = append(errs, fmt.Errorf("%s %s of %s: %s; %s", f.Kind, f.ID, f.Module, f.What, remedies[f.Kind]))
			continue
		}
		used[exceptions[i]] = true
	}
	for _, e := range exceptions {
		if asked := e.Kind == vulnerability && allVulnerabilities || e.Kind == licenced && allLicences; asked && !used[e] {
			errs = append(errs, fmt.Errorf("the exception for %s of %s is not needed any more: remove it", e.ID, e.Module))
		}
	}
	return errors.Join(errs...)
}

// modules are the folders of our modules whose programs are given to others.
var modules = []string{".", "standalone"}

// goVulnerabilities asks Go's database about the modules that our modules require.
func goVulnerabilities(ctx context.Context, root string) ([]finding, error) {
	seen := map[finding]bool{}
	var out []finding
	for _, dir := range modules {
		tools, err := filepath.Abs(filepath.Join(root, "go.tools.mod"))
		if err != nil {
			return nil, err
		}
		// It wants a package where it runs, and asks about the whole module from there.
		cmd := command(ctx, filepath.Join(root, dir, "cmd", "nephele"), "go", "tool", "-modfile="+tools, "govulncheck", "-scan=module", "-format=json")
		var said bytes.Buffer
		cmd.Stderr = &said
		// In JSON it ends with 0 whatever it finds. Proxies have many ways not to answer, with
		// pages of their own among them, so every other end is one.
		raw, err := cmd.Output()
		if err != nil {
			return nil, away("govulncheck in "+dir, said.String()+" "+err.Error())
		}
		found, err := readGoVulnerabilities(bytes.NewReader(raw))
		if err != nil {
			return nil, away("govulncheck in "+dir, err.Error())
		}
		for _, f := range found {
			if !seen[f] {
				seen[f] = true
				out = append(out, f)
			}
		}
	}
	return out, nil
}

// readGoVulnerabilities reads the stream of govulncheck.
func readGoVulnerabilities(from io.Reader) ([]finding, error) {
	var out []finding
	for d := json.NewDecoder(from); ; {
		var message struct {
			Finding *struct {
				OSV          string
				FixedVersion string `json:"fixed_version"`
				Trace        []struct{ Module, Version string }
			}
		}
		switch err := d.Decode(&message); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("read what govulncheck says: %w", err)
		}
		if f := message.Finding; f != nil && len(f.Trace) > 0 {
			out = append(out, finding{vulnerability, f.OSV, f.Trace[0].Module, "in " + f.Trace[0].Version + ", fixed in " + cmp.Or(f.FixedVersion, "no version")})
		}
	}
}

// npmVulnerabilities asks npm's registry about the packages that the page is built with.
func npmVulnerabilities(ctx context.Context, root string) ([]finding, error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return nil, away("npm", "it is not here")
	}
	cmd := command(ctx, filepath.Join(root, "web"), "npm", "audit", "--json", "--package-lock-only", "--fetch-retries=1", "--fetch-timeout=30000")
	raw, err := cmd.Output() // exits with 1 if there are any
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	return readNPM(raw)
}

// readNPM reads what npm audit prints.
func readNPM(raw []byte) ([]finding, error) {
	var said struct {
		Error           *struct{ Summary, Code string }
		Message         string
		Version         int `json:"auditReportVersion"`
		Vulnerabilities map[string]struct {
			Via []json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return nil, away("npm audit", fmt.Sprintf("%v: %.100q", err, raw))
	}
	if said.Error != nil || said.Version == 0 {
		reason := said.Message
		if e := said.Error; e != nil {
			reason = strings.Join([]string{e.Code, e.Summary, reason}, " ")
		}
		return nil, away("npm audit", reason)
	}
	var out []finding
	for name, v := range said.Vulnerabilities {
		for _, via := range v.Via {
			var advisory struct{ Name, URL, Title, Severity string }
			if json.Unmarshal(via, &advisory) != nil || advisory.URL == "" {
				continue // the name of another package, which has it by itself
			}
			out = append(out, finding{vulnerability, advisory.URL[strings.LastIndex(advisory.URL, "/")+1:], cmp.Or(advisory.Name, name), advisory.Severity + ": " + advisory.Title})
		}
	}
	slices.SortFunc(out, func(a, b finding) int { return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.ID, b.ID)) })
	return slices.Compact(out), nil
}

// allowed are the licences under which something may be in what we ship.
var allowed = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC"}

func licences(ctx context.Context, root string) ([]finding, error) {
	all, err := licence.Modules(ctx, root, modules...)
	if err != nil {
		return nil, err
	}
	var out []finding
	for _, m := range all {
		if !slices.ContainsFunc(strings.Split(m.Licence, " AND "), func(l string) bool { return !slices.Contains(allowed, l) }) {
			continue
		}
		out = append(out, finding{licenced, m.Licence, m.Path, "is in our programs; allowed are " + strings.Join(allowed, ", ")})
	}
	npm, err := npmLicences(filepath.Join(root, "web/package-lock.json"))
	return append(out, npm...), err
}

// npmLicences reads the licences of what is in the page: packages that are not for its making
// alone.
func npmLicences(lock string) ([]finding, error) {
	raw, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var said struct {
		Packages map[string]struct {
			Licence string `json:"license"`
			Dev     bool
		}
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return nil, fmt.Errorf("%s: %w", lock, err)
	}
	var out []finding
	for path, p := range said.Packages {
		if path == "" || p.Dev || slices.Contains(allowed, p.Licence) {
			continue
		}
		name := path[strings.LastIndex(path, "node_modules/")+len("node_modules/"):]
		out = append(out, finding{licenced, cmp.Or(p.Licence, licence.Unknown), name, "is in the page of the console"})
	}
	slices.SortFunc(out, func(a, b finding) int { return cmp.Compare(a.Module, b.Module) })
	return out, nil
}
