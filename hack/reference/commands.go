package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/cli"
)

// commands lists the command line of the slim program.
func commands(out *bytes.Buffer) error {
	root := cli.NewRoot()
	for _, c := range root.Commands() {
		command(out, c)
	}
	return nil
}

func command(out *bytes.Buffer, c *cobra.Command) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	fmt.Fprintf(out, "\n## %s\n\n", c.CommandPath())
	about := c.Long
	if about == "" {
		about = c.Short
	}
	fmt.Fprintf(out, "    %s\n\n", c.UseLine())
	fmt.Fprintln(out, indented(about))
	var flags []*pflag.Flag
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			flags = append(flags, f)
		}
	})
	if len(flags) > 0 {
		fmt.Fprint(out, "\n| Flag | Default | What it does |\n|---|---|---|\n")
	}
	for _, f := range flags {
		kind, what := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		value := f.DefValue
		if value == "[]" || value == "false" {
			value = ""
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", name, cell(value), cell(what))
	}
	for _, below := range c.Commands() {
		command(out, below)
	}
}

// indented puts text into a block that keeps its lines.
func indented(text string) string {
	var out []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line = strings.TrimRight(line, " \t"); line != "" {
			line = "    " + line
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
