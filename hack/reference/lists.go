package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// lists.go writes the pages that are made of lists which stand beside what they are about: recipes,
// alerts, attempts of attackers, and modules. Links in them begin at the root of the repository.

// fromHere makes links that begin at the root of the repository right for a page of the reference.
func fromHere(text string) string { return strings.ReplaceAll(text, "](docs/", "](../") }

const recipesFolder = "docs/examples/recipes"

// recipes lists the policies to copy, by the two comments that each begins with: what it is, and
// what to know of it.
func recipes(out *bytes.Buffer) error {
	files, err := filepath.Glob(filepath.Join(recipesFolder, "*.yaml"))
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n| Policy | To know |\n|---|---|\n")
	for _, path := range files {
		if filepath.Base(path) == "estate.yaml" {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := strings.SplitN(string(raw), "\n", 3)
		if len(lines) < 3 || !strings.HasPrefix(lines[0], "# ") || !strings.HasPrefix(lines[1], "# ") {
			return fmt.Errorf("%s does not begin with two comments: what it is, and what to know of it", path)
		}
		sentence := func(line string) string { return cell(strings.TrimSuffix(strings.TrimPrefix(line, "# "), ".")) }
		fmt.Fprintf(out, "| [%s](../examples/recipes/%s) | %s |\n", sentence(lines[0]), filepath.Base(path), sentence(lines[1]))
	}
	return nil
}

const alertsFile = "charts/nephele/files/alerts.yaml"

var (
	toDo     = regexp.MustCompile(`^ *# Do: (.+)$`)
	alert    = regexp.MustCompile(`^ *- alert: (\w+)$`)
	summary  = regexp.MustCompile(`^ *summary: "?(.+?)"?$`)
	labelled = regexp.MustCompile(`\{\{ *\$(?:labels\.)?(\w+)[^}]*\}\}`)
)

// alerts lists the alerts with what they say and what to do about each, which a comment before each
// says.
func alerts(out *bytes.Buffer) error {
	raw, err := os.ReadFile(alertsFile)
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n| Alert | It says | What to do |\n|---|---|---|\n")
	name, do := "", ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		if m := toDo.FindStringSubmatch(line); m != nil {
			do = m[1]
		} else if m := alert.FindStringSubmatch(line); m != nil {
			if name = m[1]; do == "" {
				return fmt.Errorf("%s: no comment \"# Do: ...\" before %s says what to do", alertsFile, name)
			}
		} else if m := summary.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(out, "| `%s` | %s | %s |\n", name, cell(placeholders(m[1])), linked(do))
			do = ""
		}
	}
	return nil
}

// placeholders writes {{ $labels.account }} as ACCOUNT.
func placeholders(text string) string {
	return labelled.ReplaceAllStringFunc(text, func(s string) string {
		return strings.ToUpper(labelled.FindStringSubmatch(s)[1])
	})
}

// linked makes text with links fit into a cell of a table.
func linked(text string) string { return strings.ReplaceAll(fromHere(text), "|", `\|`) }

const threatsFile = "test/house/threats.txt"

// threats lists the attempts of attackers that tests try.
func threats(out *bytes.Buffer) error {
	raw, err := os.ReadFile(threatsFile)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			fmt.Fprintf(out, "\n## %s\n\n| Attempt | Defence | Tests |\n|---|---|---|\n", title)
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 3 {
			return fmt.Errorf("%s: %q: want ATTEMPT | DEFENCE | TESTS", threatsFile, line)
		}
		fmt.Fprintf(out, "| %s | %s | `%s` |\n", fromHere(parts[0]), fromHere(parts[1]), strings.Join(strings.Fields(parts[2]), "`, `"))
	}
	return nil
}

// goMods are the modules of the repository, by the titles of their sections.
var goMods = []struct{ title, about, file string }{
	{"Main module", "", "go.mod"},
	{"Standalone module", "For `nephele up` and `nephele demo`, besides modules of the main one.", "standalone/go.mod"},
	{"Packaging module", "Charts, images, archives and their tests; in no binary.", "packaging/go.mod"},
	{"Cluster module", "For `make cluster`, which also builds etcd and Kubernetes.", "test/cluster/go.mod"},
}

var required = regexp.MustCompile(`^(?:require )?\s*([a-z0-9.-]+\.[a-z]+/\S+) v\S+ // (.+)$`)

// dependencies lists the modules that are imported directly, with the reason that stands behind
// each requirement. Modules with the same reason share a row.
func dependencies(out *bytes.Buffer) error {
	for _, mod := range goMods {
		raw, err := os.ReadFile(mod.file)
		if err != nil {
			return err
		}
		var reasons []string
		modules := map[string][]string{}
		for line := range strings.Lines(string(raw)) {
			m := required.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil || m[2] == "indirect" {
				continue
			}
			if modules[m[2]] == nil {
				reasons = append(reasons, m[2])
			}
			modules[m[2]] = append(modules[m[2]], m[1])
		}
		fmt.Fprintf(out, "\n## %s\n", mod.title)
		if mod.about != "" {
			fmt.Fprintf(out, "\n%s\n", fill(mod.about))
		}
		fmt.Fprint(out, "\n| Modules | What for |\n|---|---|\n")
		for _, why := range reasons {
			fmt.Fprintf(out, "| `%s` | %s |\n", strings.Join(modules[why], "`, `"), cell(why))
		}
	}
	fmt.Fprintf(out, "\n## Tools\n\n%s\n\n%s\n", fill("`sigs.k8s.io/controller-tools` generates code and definitions, `honnef.co/go/tools` is staticcheck."),
		fill("The console's page is built with `svelte`, `cytoscape`, `@codemirror/*`, `@lezer/highlight`, `yaml` and the fonts of `@fontsource-variable/*`; its tools are `vite`, `typescript`, `svelte-check`, `vitest`, `playwright-core` and `axe-core` (`web/package-lock.json`)."))
	return nil
}
