package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"

	aws "github.com/nephele-io/nephele/internal/cloud/aws/rights"
	azure "github.com/nephele-io/nephele/internal/cloud/azure/rights"
)

const personasFile = "config/grants/personas.yaml"

var persona = regexp.MustCompile(`(?m)^#   (nephele-[a-z-]+) +(.+)$`)

// rights lists what the roles of the cluster permit, and the printed policy and role of clouds.
func rights(out *bytes.Buffer) error {
	raw, err := os.ReadFile(personasFile)
	if err != nil {
		return err
	}
	personas := persona.FindAllStringSubmatch(string(raw), -1)
	if len(personas) < 5 {
		return fmt.Errorf("%s: its comment names %d roles", personasFile, len(personas))
	}
	fmt.Fprintf(out, "\n## Kubernetes: roles to bind\n\n%s\n\n| ClusterRole | It |\n|---|---|\n",
		fill("From `config/grants`. To add to one, label a ClusterRole of your own `nephele.io/aggregate-to-NAME: \"true\"`, with its name without `nephele-`."))
	for _, p := range personas {
		fmt.Fprintf(out, "| `%s` | %s |\n", p[1], cell(p[2]))
	}
	fmt.Fprint(out, "\n## AWS: statements of the policy\n\n| Statement | Permits | Keeps out |\n|---|---|---|\n")
	for _, p := range aws.Purposes() {
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", p.Right, linked(p.Permits), linked(p.KeepsOut))
	}
	fmt.Fprint(out, "\n## AWS: what may be left out\n\n| Right | Without it |\n|---|---|\n")
	for _, p := range aws.Optional() {
		fmt.Fprintf(out, "| %s | %s |\n", p.Right, linked(p.Permits))
	}
	fmt.Fprint(out, "\n## Azure: actions of the role\n\n| Actions | For |\n|---|---|\n")
	for _, p := range append(azure.Purposes(), azure.Optional()...) {
		fmt.Fprintf(out, "| `%s` | %s |\n", strings.ReplaceAll(strings.Join(p.Actions, "`, `"), "`/", "`.../"), linked(p.For))
	}
	return nil
}
