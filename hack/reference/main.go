// Command reference writes docs/reference: fields of the stored kinds from their definitions,
// conditions, reasons, annotations and labels from the constants of package api, answers from their
// types, metrics from where they are made, what is asked of EC2 from its adapter, rights
// from the manifests and packages that give them, commands with their flags from the command line
// itself, and recipes, alerts, threats and dependencies from the lists that stand beside them.
//
// Usage: reference FOLDER, at the root of the repository and after the definitions were generated.
//
// It owns the files that it writes and leaves others in the folder alone. It runs once and to the
// end.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// page is one file of the reference.
type page struct {
	file, title, about string
	write              func(out *bytes.Buffer) error
}

var pages = []page{
	{"kinds.md", "Kinds and their fields", "Every stored kind, with the type, the bounds and the meaning of each field. `kubectl explain` shows the same.", kinds},
	{"conditions.md", "Conditions and reasons", "For readers of a status: what conditions say, the reasons that they and events give, and the words for how a policy stands. On one VM a policy is Realized, Realizing, Failed or Suspended.", conditions},
	{"annotations.md", "Annotations and labels", "What Nephele reads from and writes into the metadata of objects.", annotations},
	{"answers.md", "Answers", "What `nephele explain`, `reach`, `rules`, `plan`, `flows`, `status`, `history` and `test` print with `-o json` or `-o yaml`; the kinds of `analysis.nephele.io`; policy tests; and lines of the record of changes, field by field. A field keeps its name and meaning; fields and words may be added, and texts for people may be reworded.", answers},
	{"metrics.md", "Metrics", "Every metric of the controller, of enforcers and of agents. [Metrics](../metrics.md) says where they are served.", metrics},
	{"ec2.md", "What is asked of EC2", "Every action of AWS that Nephele calls, with the parameters that it sets, and the error codes that it knows, by what they mean. [Requirements](../ec2-compatible.md) says what else a service must do.", ec2},
	{"rights.md", "Rights", "For administrators: the roles of the cluster to bind to people, and what the policy of `nephele iam-policy` and the role of `nephele azure-role` permit. [Who may reach whose VMs](../api.md#who-may-reach-whose-vms), [AWS](../aws-rights.md) and [Azure](../azure-rights.md) say how to use them.", rights},
	{"commands.md", "Commands and flags", "Every command of `nephele` with its flags, as `--help` prints them. `nephele up` and `nephele demo` are only in the all-in-one program: `nephele up --help`.", commands},
	{"recipes.md", "Recipes", "For policy authors: twenty complete files to copy. The comments at the end of each say what it opens and closes in [the estate of the examples](../examples/recipes/estate.yaml); a test checks them. Open means that no policy closes it: the VM's own security groups may. Try one with [`nephele plan`](../ask.md#what-would-change), or put it into the cluster [staged](../api.md#staged-policies). The lower priority goes first within a tier; the tiers in order are `emergency`, `securityops`, `networkops` (all three need [the verb `use`](../api.md#who-may-reach-whose-vms)), `platform`, `application` (the default), `baseline`.", recipes},
	{"alerts.md", "Alerts", "For operators who get an alert: what it says, and what to do. [Alerts and dashboards](../operate.md#alerts-and-dashboards) says how to install them.", alerts},
	{"threats.md", "Attempts of attackers", "For security reviewers: find an attempt, what stops it, and the tests that prove it. [Security](../security.md) says what is not protected. Trusted are the cluster's administrator with everything, the operator with flags, a tagger in the cloud with labels and `nephele.io/follow`, an account's endpoint with the truth about this account, and root on a host with its key and host. [Roles](rights.md#kubernetes-roles-to-bind) in the cluster cannot widen themselves (`TestPersonas`, `TestNoPersonaMakesItself`).", threats},
	{"dependencies.md", "Dependencies", "Every module that our code imports directly, and why. [Contributing](../../CONTRIBUTING.md#what-a-change-needs) says what a new one must be worth.", dependencies},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference FOLDER")
		os.Exit(2)
	}
	for _, p := range pages {
		if err := p.render(os.Args[1]); err != nil {
			fmt.Fprintf(os.Stderr, "reference: %s: %v\n", p.file, err)
			os.Exit(1)
		}
	}
}

func (p page) render(folder string) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n\n%s\n\nGenerated from the code by `make generate`.\n", p.title, fill(p.about))
	if err := p.write(&out); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, p.file), out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// columns is how wide prose may be.
const columns = 100

// fill breaks a paragraph into lines.
func fill(text string) string {
	var out strings.Builder
	width := 0
	for _, word := range strings.Fields(text) {
		switch {
		case width == 0:
		case width+1+len(word) > columns:
			out.WriteByte('\n')
			width = 0
		default:
			out.WriteByte(' ')
			width++
		}
		out.WriteString(word)
		width += len(word)
	}
	return out.String()
}

// cell makes text fit into a cell of a table.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "](", "] (").Replace(text)
}
