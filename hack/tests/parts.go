package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// part is one step of a tier.
type part struct {
	name, title string
	// dir is where the commands run; empty for the root.
	dir      string
	env      []string
	commands [][]string
	// missing says what the machine lacks that the part needs, or nothing.
	missing func() string
}

func (p part) runs(command ...string) part {
	p.commands = append(slices.Clip(p.commands), command)
	return p
}

// inModule is the part that vets and tests a module. The go command vets each package when it tests
// it, so there is no second pass. No debugger looks at these binaries: without what one needs,
// linking takes two thirds of the time. atLeast is how many packages are tested at the same time on
// a machine with fewer processors: tests that wait most of their time run beside more others than
// tests that start API servers.
func inModule(name, title, dir string, atLeast int, flags ...string) part {
	command := []string{"go", "test", "-json", "-ldflags=-w", fmt.Sprint("-p=", max(atLeast, runtime.NumCPU()))}
	return part{name: name, title: title, dir: dir}.runs(append(append(command, flags...), "./...")...)
}

// within has the go command take former results of tests from its cache only if something is as it
// was then. Of the files that a test reads, the go command remembers the files in the test's own
// module. But tests skip themselves where the machine lacks a program, and tests of a nested module
// also read pages, charts and manifests outside it, and run binaries. No test has the name that is
// skipped, but the go command takes it for a part of the question.
func (p part) within(id string) part {
	for i, c := range p.commands {
		p.commands[i] = slices.Insert(slices.Clone(c), slices.Index(c, "-json"), skipping(id))
	}
	return p
}

func skipping(id string) string { return "-skip=^within-" + id + "$" }

// longestFirst are the packages of the standalone module that take minutes, the longest first: the
// go command starts packages in the order in which they are named, and the last ones run alone.
var longestFirst = []string{"./e2e", "./internal/controlplane", "./docs", "./browser"}

// state is what results of tests depend on besides the files of their module.
type state struct {
	// sources identifies the whole repository, machine what tests find outside it.
	sources, machine string
}

func (s state) whole() string { return s.sources + "-" + s.machine }

// inMain is inModule for the main module, and inStandalone for the standalone module.
func inMain(name, title string, s state, flags ...string) part {
	return inModule(name, title, "", 4, flags...).within(s.machine)
}

func inStandalone(name, title string, s state, flags ...string) part {
	return inModule(name, title, "standalone", 2, append(flags, longestFirst...)...).within(s.whole())
}

func makes(name, title string, args ...string) part {
	return part{name: name, title: title}.runs(append([]string{"make", "--no-print-directory"}, args...)...)
}

// tierOf returns the parts of a tier.
func tierOf(ctx context.Context, name string, s state) ([]part, error) {
	switch name {
	case "check":
		return checkParts(ctx)
	case "test":
		return testParts(s), nil
	case "long":
		return longParts(s), nil
	}
	return nil, fmt.Errorf("usage: tests [-parts NAME,NAME] [-fresh] [-slowest N] check|test|long; got %q", name)
}

func testParts(s state) []part {
	return []part{
		makes("format", "format", "fmt"),
		part{name: "generated", title: "generated files"}.runs("hack/verify-generated.sh"),
		inMain("main", "vet and tests of the main module", s, "-vet=all", "-timeout=30m"),
		part{name: "web", title: "page of the console"}.runs("hack/web.sh", "verify-if-possible"),
		makes("binary", "standalone binary", "build"),
		makes("staticcheck", "staticcheck", "staticcheck"),
		makes("audit", "vulnerabilities and licences of what is in our programs", "audit"),
		inStandalone("standalone", "vet and tests of the standalone module: these start API servers", s, "-vet=all", "-timeout=60m"),
		inModule("packaging", "vet and tests of the packaging module: charts and images", "packaging", 4, "-vet=all").within(s.whole()),
	}
}

func longParts(s state) []part {
	long := func(p part) part {
		p.env = append(p.env, "NEPHELE_LONG=1")
		return p
	}
	return []part{
		makes("static", "format and staticcheck", "fmt", "staticcheck"),
		part{name: "generated", title: "generated files"}.runs("hack/verify-generated.sh"),
		part{name: "web", title: "page of the console"}.runs("hack/web.sh", "verify-if-possible"),
		makes("binary", "standalone binary", "build"),
		long(inMain("main", "all tests of the main module", s, "-vet=all", "-timeout=3h")),
		long(inStandalone("standalone", "all tests of the standalone module: release and back, kills, replicas, attacks, browser", s, "-vet=all", "-timeout=3h")),
		long(inModule("packaging", "all tests of the packaging module, and the image for both architectures", "packaging", 4, "-vet=all", "-timeout=1h").within(s.whole())),
		makes("worlds", "20,000 random worlds against the planner", "worlds", "WORLDS=20000"),
		makes("matrix", "every call of every history disturbed in every way", "matrix"),
		inMain("race", "race detector, main module", s, "-race", "-vet=off", "-timeout=3h"),
		inStandalone("race-standalone", "race detector, standalone module", s, "-race", "-vet=off", "-timeout=3h"),
		makes("scale", "fleets under the rate limits of clouds", "scale"),
		needing(makes("az", "Azure's own command line against the simulator", "az"), azMissing),
		needing(makes("cluster", "Kubernetes' own cases about network policies on a real cluster", "cluster"), aptMissing),
	}
}

func needing(p part, missing func() string) part {
	p.missing = missing
	return p
}

func azMissing() string {
	if _, err := exec.LookPath("az"); err == nil {
		return ""
	}
	return aptMissing()
}

// aptMissing says why packages cannot be installed here.
func aptMissing() string {
	switch _, err := exec.LookPath("apt-get"); {
	case runtime.GOOS != "linux" || err != nil:
		return "it needs Debian or Ubuntu"
	case os.Geteuid() != 0:
		return "it needs root"
	}
	return ""
}

// checkParts are the format, the tests of the repository as a whole, and the short tests of what
// has changed since the commit that this branch left main at, uncommitted changes included.
func checkParts(ctx context.Context) ([]part, error) {
	changed, err := changedFiles(ctx)
	if err != nil {
		return nil, err
	}
	parts := []part{
		makes("format", "format", "fmt"),
		part{name: "house", title: "tests of the repository as a whole: architecture, limits, links, words"}.runs("go", "test", "-json", "./test/house"),
	}
	packages := packagesOf(changed)
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		// Tests that start an API server are too long for this: they are compiled and vetted.
		var tested, vetted []string
		for _, p := range packages[dir] {
			if dir == "standalone" && !strings.HasPrefix(p, "./internal/demo") {
				vetted = append(vetted, p)
			} else {
				tested = append(tested, p)
			}
		}
		p := part{name: "changed-" + dir, title: "short tests of changed packages: " + dir, dir: dir}
		if len(tested) > 0 {
			p = p.runs(append([]string{"go", "test", "-json", "-short", "-vet=all"}, tested...)...)
		}
		if len(vetted) > 0 {
			p = p.runs(append([]string{"go", "vet"}, vetted...)...)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// changedFiles lists the files that differ from where this branch left main.
func changedFiles(ctx context.Context) ([]string, error) {
	git := func(args ...string) ([]string, error) {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return slices.DeleteFunc(strings.Split(string(out), "\x00"), func(s string) bool { return s == "" }), nil
	}
	since := "HEAD"
	for _, main := range []string{"origin/main", "main"} {
		if base, err := exec.CommandContext(ctx, "git", "merge-base", main, "HEAD").Output(); err == nil {
			since = strings.TrimSpace(string(base))
			break
		}
	}
	changed, err := git("diff", "-z", "--name-only", "--no-renames", since)
	if err != nil {
		return nil, err
	}
	added, err := git("ls-files", "-z", "--others", "--exclude-standard")
	return append(changed, added...), err
}

// modules are the directories with modules of their own, which make test vets and tests.
var modules = []string{"standalone", "packaging"}

// packagesOf returns the packages that own the files, by module. A file that is no Go source, such
// as one below testdata, belongs to the nearest directory above it that holds Go sources;
// test/house looks at the rest, and is always tested.
func packagesOf(files []string) map[string][]string {
	out := map[string][]string{}
	for _, file := range files {
		if strings.HasPrefix(file, "test/cluster/") {
			continue // a module of its own, which make cluster tests
		}
		module, below := ".", file
		for _, m := range modules {
			if rest, ok := strings.CutPrefix(file, m+"/"); ok {
				module, below = m, rest
			}
		}
		dir := filepath.Dir(below)
		for dir != "." && !hasGo(filepath.Join(module, dir)) {
			dir = filepath.Dir(dir)
		}
		if p := "./" + filepath.ToSlash(dir); dir != "." && !slices.Contains(out[module], p) {
			out[module] = append(out[module], p)
		}
	}
	return out
}

func hasGo(dir string) bool {
	found, err := filepath.Glob(filepath.Join(dir, "*.go"))
	return err == nil && len(found) > 0
}
