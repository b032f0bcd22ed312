package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/reach"
)

// testFlags are the flags of test.
type testFlags struct {
	files    []string
	snapshot string
	staged   source.StagedFlags
	output   string
	coverage bool
	minimum  int
	set      bool
	cluster  source.ClusterFlags
}

func newTestCommand() *cobra.Command {
	var f testFlags
	c := &cobra.Command{
		Use:   "test -f FILE_OR_DIR... [--snapshot FILE_OR_DIR | --set] [-o text|junit|json] [--coverage]",
		Short: "Test policies against expected verdicts, without a cluster",
		Long: `Test computes the policies in the manifests and holds what they allow against files of kind PolicyTest: which flows are to
be allowed and which not, by names or labels. Nothing but files is read, unless --set is given.

A test may suppose machines and Pods, so that policies in Git can be tested where no inventory is. With --snapshot machines
and their own security groups are read from a description of the account. Policies are tested as if they were enforced on
all machines.

With --set nothing is computed here: in the hub of a set, the tests name clusters, as in east:shop/app=web, and the cluster of
each end answers for it as it is. One that cannot be reached answers nothing, and what depends on it is not met.

--coverage lists the rules that no test is about. The exit code is 0 if all expectations are met, 1 if one is not or too few
rules are covered, 2 if the input is wrong.`,
		Example: `  nephele test -f policies/ -f tests/
  nephele test -f policies/ -f tests/ -o junit > report.xml
  nephele test -f policies/ -f tests/ -f account.yaml --snapshot ./my-account --coverage --min-coverage 80
  nephele test --set -f tests/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTest(cmd, &f) },
	}
	flags := c.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or directory with policies and tests, or - for the standard input; may be repeated")
	flags.StringVar(&f.snapshot, "snapshot", "", "file or folder that describes the cloud account")
	flags.StringVarP(&f.output, "output", "o", "text", "text, junit or json")
	flags.BoolVar(&f.coverage, "coverage", false, "list the rules that no test is about")
	flags.IntVar(&f.minimum, "min-coverage", 0, "exit with 1 if less than this percentage of the rules is covered")
	flags.BoolVar(&f.set, "set", false, "ask the clusters of the set, in its hub, in place of computing policies of files")
	f.cluster.Register(flags)
	f.staged.Register(flags)
	return c
}

func runTest(cmd *cobra.Command, f *testFlags) error {
	if !slices.Contains([]string{"text", "junit", "json"}, f.output) {
		return fmt.Errorf("--output %q: want text, junit or json", f.output)
	}
	if f.minimum < 0 || f.minimum > 100 {
		return fmt.Errorf("--min-coverage %d: want a percentage from 0 to 100", f.minimum)
	}
	if len(f.files) == 0 {
		return errors.New("-f is missing: want files or directories with policies and tests, or - for the standard input")
	}
	ask := f.report
	if f.set {
		ask = f.setReport
	}
	report, err := ask(cmd)
	if err != nil {
		return err
	}
	switch f.output {
	case "junit":
		err = printJUnit(cmd.OutOrStdout(), report)
	case "json":
		err = terminal.PrintValue(cmd.OutOrStdout(), "json", report.json())
	default:
		err = printTests(cmd.OutOrStdout(), report, f.coverage)
	}
	if err != nil {
		return err
	}
	return report.outcome(f.minimum)
}

// testReport is what became of all tests.
type testReport struct {
	results []placedResult
	// rules holds the rules of the policies, with whether a test is about them; nil where clusters
	// have answered.
	rules []expect.Covered
}

// placedResult is a result with where the test stands.
type placedResult struct {
	expect.Result
	at func(field string) manifest.Position
}

func (f *testFlags) report(cmd *cobra.Command) (*testReport, error) {
	in, err := preview.LoadInputs(f.files, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	if f.snapshot != "" {
		if err := source.AddSnapshot(cmd, in, f.snapshot); err != nil {
			return nil, err
		}
	}
	in.Objects.WithStaged = f.staged.With
	shared := preview.Compute(in)
	terminal.Notes(cmd, in.Notes)
	if err := terminal.Refused(cmd, in.Refused); err != nil {
		return nil, err
	}
	tests := testsAmong(in)
	if len(tests) == 0 {
		return nil, fmt.Errorf("there is no %s among the files: want at least one, with apiVersion %s", expect.Kind, expect.GroupVersion())
	}
	out, covered := &testReport{}, expect.Coverage{}
	var everybody *explain.World
	var uses useTable
	for _, d := range tests {
		t := d.Object.(*expect.PolicyTest)
		w := everybody
		switch {
		case t.Supposes():
			objects := t.Objects(in.Objects)
			c := explain.Compute(&objects)
			if err := problemsOf(d, c); err != nil {
				return nil, err
			}
			w = c.World(true)
		case everybody == nil:
			everybody = shared.Computed.World(true)
			w = everybody
		}
		uses.add(w.RuleUses())
		out.results = append(out.results, placedResult{t.Run(w, covered), d.At})
	}
	out.rules = covered.Of(uses.list)
	return out, nil
}

// tests are the tests among the inputs, in the order of their names.
func testsAmong(in *preview.Inputs) []*manifest.Document {
	var out []*manifest.Document
	for _, d := range in.Documents {
		if d.Kind == expect.Kind {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *manifest.Document) int { return strings.Compare(a.Object.GetName(), b.Object.GetName()) })
	return out
}

// problemsOf is what the supposed objects of a test make of the policies: what is refused with
// them, but not without.
func problemsOf(d *manifest.Document, c *explain.Computation) error {
	var errs []error
	for _, p := range c.Problems {
		for _, e := range p.Errors {
			errs = append(errs, fmt.Errorf("%s: %s: with what it supposes, %s %s/%s is refused: %w", d.Position, d.Name(), p.Kind, p.Namespace, p.Name, e))
		}
	}
	return errors.Join(errs...)
}

// useTable puts together what rules are good for in several worlds: the most that they are good for
// in any.
type useTable struct {
	list []reach.RuleUse
	at   map[expect.Written]int
}

func (t *useTable) add(uses []reach.RuleUse) {
	if t.at == nil {
		t.at = map[expect.Written]int{}
	}
	for _, u := range uses {
		key := expect.WrittenOf(&u.RuleRef)
		i, known := t.at[key]
		if !known {
			t.at[key] = len(t.list)
			t.list = append(t.list, u)
			continue
		}
		t.list[i] = t.list[i].With(u)
	}
}

// counts are how many expectations there are, how many are not met, and how many make no sense.
func (r *testReport) counts() (all, failed, broken int) {
	for _, t := range r.results {
		for i := range t.Flows {
			all++
			switch f := &t.Flows[i]; {
			case f.Err != nil:
				broken++
			case !f.Passed():
				failed++
			}
		}
	}
	return all, failed, broken
}

// covered is the number of rules that a test is about.
func (r *testReport) covered() int {
	n := 0
	for _, c := range r.rules {
		if c.Tested {
			n++
		}
	}
	return n
}

// outcome is what the command ends with.
func (r *testReport) outcome(minimum int) error {
	_, failed, broken := r.counts()
	switch {
	case broken > 0:
		return terminal.ErrRefused
	case failed > 0, r.covered()*100 < minimum*len(r.rules):
		return terminal.ErrNo
	}
	return nil
}

// printTests prints what failed, and the numbers.
func printTests(out io.Writer, r *testReport, coverage bool) error {
	for _, t := range r.results {
		for i := range t.Flows {
			f := &t.Flows[i]
			word := "ok  "
			if f.Err != nil {
				word = "BAD "
			} else if !f.Passed() {
				word = "FAIL"
			}
			fmt.Fprintf(out, "%s  %s\n", word, terminal.Printable(t.Name+": "+show.Expectation(f)))
			if !f.Passed() {
				fmt.Fprintf(out, "      %s\n", t.at(fmt.Sprintf("spec.flows[%d]", f.Index)))
			}
			for _, line := range show.WhyNot(f) {
				fmt.Fprintf(out, "      %s\n", terminal.Printable(line))
			}
		}
	}
	if coverage {
		for _, c := range r.rules {
			if !c.Tested {
				fmt.Fprintf(out, "not tested: %s%s\n", terminal.Printable(explain.RuleText(explain.RuleOf(c.RuleRef))), show.UseNote(c.Use))
			}
		}
	}
	all, failed, broken := r.counts()
	about := ""
	if r.rules != nil {
		about = fmt.Sprintf("; tests are about %d of %d rules", r.covered(), len(r.rules))
	}
	_, err := fmt.Fprintf(out, "%d expectations: %d met, %d not met, %d make no sense%s\n", all, all-failed-broken, failed, broken, about)
	return err
}
