package historycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdmaps "maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/history"
)

// manager is the field manager of what is applied again.
const manager = "nephele-history"

// Needs are what the commands take from the others.
type Needs struct {
	// Cluster makes the flags that name the cluster, Plan the flags of a plan, which include them.
	// Each command has its own.
	Cluster func() Cluster
	Plan    func() Planner
}

// Cluster says which cluster it is.
type Cluster interface {
	Register(flags *pflag.FlagSet)
	Client() (client.Client, error)
}

// Planner plans for a cluster.
type Planner interface {
	Cluster
	// Plan prints what would change in the cloud with the manifest applied. Its errors are the
	// errors of "nephele plan".
	Plan(cmd *cobra.Command, manifest []byte) error
}

// revisionFlags are the flags of all commands about the history.
type revisionFlags struct {
	cluster   Cluster
	namespace string
}

func (f *revisionFlags) register(flags *pflag.FlagSet) {
	f.cluster.Register(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the policy or revision, where its name says none (default: all namespaces, and what is in none)")
}

// Command is "history".
func Command(n Needs) *cobra.Command {
	f := revisionFlags{cluster: n.Cluster()}
	var filter history.Filter
	var since time.Duration
	var limit int
	var output string
	cmd := &cobra.Command{
		Use:   "history [POLICY]",
		Short: "List what policies were, who changed them, and what became of it",
		Long: `List the changes of policies, groups and tiers, the youngest first: when, the revision, what was done, by whom, and what became of it.
POLICY is NAMESPACE/NAME, or NAME of what is in no namespace.

With a revision from the list, "history show" tells what changed, "history plan" what it would change in the cloud to go back to it, and
"history apply" goes back. docs/history.md says what is kept, and for how long.`,
		Example: `  nephele history
  nephele history shop/db-from-app
  nephele history -n shop --since 24h -o json
  nephele history show shop/annp-db-from-app-3
  nephele history plan shop/annp-db-from-app-2
  nephele history apply shop/annp-db-from-app-2`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "" && output != "json" && output != "yaml" {
				return fmt.Errorf("--output %q: want json or yaml, or nothing for text", output)
			}
			if limit < 1 {
				return fmt.Errorf("--limit %d: want 1 or more", limit)
			}
			c, err := f.cluster.Client()
			if err != nil {
				return err
			}
			filter.Namespace = f.namespace
			if len(args) > 0 {
				filter.Policy = args[0]
			}
			if since > 0 {
				filter.Since = time.Now().Add(-since)
			}
			all, missing, err := history.List(cmd.Context(), c, filter)
			if err != nil {
				return err
			}
			terminal.Notes(cmd, missing.Reasons)
			if more := len(all) - limit; more > 0 {
				all = all[:limit]
				terminal.Notes(cmd, []string{fmt.Sprintf("%d older ones are left out: --limit %d shows them, too", more, limit+more)})
			}
			terminal.Notes(cmd, proofs(cmd.Context(), c, pointers(all)))
			if output != "" {
				if all == nil {
					all = []history.Revision{}
				}
				return terminal.PrintValue(cmd.OutOrStdout(), output, all)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), table(all))
			return err
		},
	}
	flags := cmd.Flags()
	f.register(flags)
	flags.StringVar(&filter.Account, "account", "", "only those for whose sake something was done in this account, NAMESPACE/NAME")
	flags.DurationVar(&since, "since", 0, "only revisions of so long ago, for example 24h")
	flags.IntVar(&limit, "limit", 50, "how many are shown")
	flags.StringVarP(&output, "output", "o", "", "json or yaml, or nothing for text")
	cmd.AddCommand(newShowCommand(n), newPlanCommand(n), newApplyCommand(n))
	return cmd
}

func newShowCommand(n Needs) *cobra.Command {
	f := revisionFlags{cluster: n.Cluster()}
	var output string
	var manifest bool
	cmd := &cobra.Command{
		Use:   "show REVISION",
		Short: "Show one change of a policy: who, what, and what became of it",
		Example: `  nephele history show shop/annp-db-from-app-3
  nephele history show shop/annp-db-from-app-3 --manifest > db-from-app.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "" && output != "json" && output != "yaml" {
				return fmt.Errorf("--output %q: want json or yaml, or nothing for text", output)
			}
			c, err := f.cluster.Client()
			if err != nil {
				return err
			}
			r, err := history.Get(cmd.Context(), c, f.namespace, args[0])
			if err != nil {
				return err
			}
			terminal.Notes(cmd, proofs(cmd.Context(), c, []*history.Revision{r}))
			out := cmd.OutOrStdout()
			if manifest {
				then, err := history.Content(&r.Spec)
				if err != nil {
					return fmt.Errorf("revision %s: %w", r.Name, err)
				}
				return terminal.PrintValue(out, "yaml", then.Object)
			}
			if output != "" {
				return terminal.PrintValue(out, output, r)
			}
			return showRevision(cmd.Context(), c, r, out)
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml, or nothing for text")
	cmd.Flags().BoolVar(&manifest, "manifest", false, "print the policy as it was, to be saved or applied")
	return cmd
}

// planFlags are the flags of the commands that show a plan.
type planFlags struct {
	revisionFlags
	planner Planner
}

func plansWith(p Planner) planFlags { return planFlags{revisionFlags{cluster: p}, p} }

// plan plans for the cluster with the manifest applied to it.
func (f *planFlags) plan(cmd *cobra.Command, manifest *unstructured.Unstructured) error {
	text, err := yaml.Marshal(manifest.Object)
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	return f.planner.Plan(cmd, text)
}

func newPlanCommand(n Needs) *cobra.Command {
	f := plansWith(n.Plan())
	cmd := &cobra.Command{
		Use:   "plan REVISION",
		Short: "Show what would change in the cloud if a policy were again what it was",
		Long: `Show what would change in the cloud if a policy were again what it was: "nephele plan" with the cluster as it is but for this policy.
Nothing is changed. The exit codes are as of "nephele plan": 0 nothing would change, 1 something would, 2 it cannot be told.`,
		Example: `  nephele history plan shop/annp-db-from-app-2`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.cluster.Client()
			if err != nil {
				return err
			}
			r, then, err := contentOf(cmd.Context(), c, f.namespace, args[0])
			if err != nil {
				return err
			}
			terminal.Notes(cmd, proofs(cmd.Context(), c, []*history.Revision{r}))
			return f.plan(cmd, then)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// proofs checks revisions, and says what is to be said of that.
func proofs(ctx context.Context, c client.Reader, all []*history.Revision) []string {
	if err := history.CheckAll(ctx, c, history.KeysNamespace, all); err != nil {
		return []string{"the author of this history cannot be verified: " + err.Error()}
	}
	var out []string
	if len(all) == 1 && all[0].Unproven != "" {
		out = append(out, "revision "+all[0].Name+" is unproven: "+all[0].Unproven+"; somebody else than the controller may have written it")
	}
	return out
}

// contentOf reads a revision and what the object was.
func contentOf(ctx context.Context, c client.Reader, namespace, name string) (*history.Revision, *unstructured.Unstructured, error) {
	r, err := history.Get(ctx, c, namespace, name)
	if err != nil {
		return nil, nil, err
	}
	then, err := history.Content(&r.Spec)
	if err != nil {
		return nil, nil, fmt.Errorf("revision %s: %w", r.Name, err)
	}
	return r, then, nil
}

func newApplyCommand(n Needs) *cobra.Command {
	f := plansWith(n.Plan())
	var yes, without bool
	cmd := &cobra.Command{
		Use:   "apply REVISION",
		Short: "Make a policy again what it was",
		Long: `Make a policy again what it was. What would change in it and in the cloud is shown first, and you are asked; --yes does not ask.
Only this policy is written, with your own rights, and only if nobody has changed it since it was shown. Its spec and its annotations of
nephele.io become what they were, other labels and annotations stay. One that was deleted is created again.

Who keeps manifests elsewhere, as in Git, has to change them too: the next "kubectl apply" of them writes what they say.

Exit codes: 0 done, or it was so already; 1 not done, because the answer was no; 2 bad input or failure.`,
		Example: `  nephele history apply shop/annp-db-from-app-2
  nephele history apply shop/annp-db-from-app-2 --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.cluster.Client()
			if err != nil {
				return err
			}
			r, then, err := contentOf(cmd.Context(), c, f.namespace, args[0])
			if err != nil {
				return err
			}
			terminal.Notes(cmd, proofs(cmd.Context(), c, []*history.Revision{r}))
			return f.apply(cmd, c, r, then, yes, without)
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&without, "without-plan", false, "go on where the plan cannot be made, as without the right to read the account's Secret")
	return cmd
}

// apply makes an object again what it was.
func (f *planFlags) apply(cmd *cobra.Command, c client.Client, r *history.Revision, then *unstructured.Unstructured, yes, without bool) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(schema.GroupVersionKind{Group: r.Spec.Object.Group, Version: r.Spec.Object.Version, Kind: r.Spec.Object.Kind})
	err := c.Get(ctx, client.ObjectKeyFromObject(then), live)
	switch {
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return fmt.Errorf("read %s: %w", named(r), err)
	case live.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s is being deleted: wait until it is gone", named(r))
	}
	next := history.Restored(then, live)
	before := ""
	if live != nil {
		if before, err = manifestText(history.Shown(live)); err != nil {
			return err
		}
	}
	after, err := manifestText(history.Shown(next))
	if err != nil {
		return err
	}
	diff := lineDiff(before, after)
	if len(diff) == 0 {
		fmt.Fprintf(out, "%s is as in revision %s already: nothing is to be done.\n", named(r), r.Name)
		return nil
	}
	verb := "changes"
	if live == nil {
		verb = "creates again"
	}
	fmt.Fprintf(out, "This %s %s:\n\n%s\n\n", verb, named(r), terminal.PrintableLines(strings.Join(diff, "\n")))
	if live != nil && live.GetUID() != r.Spec.Object.UID {
		fmt.Fprintf(out, "It was deleted and made anew since revision %s.\n\n", r.Name)
	}
	switch err := f.plan(cmd, history.Shown(next)); {
	case err == nil, errors.Is(err, terminal.ErrNo):
	case errors.Is(err, terminal.ErrRefused):
		return fmt.Errorf("revision %s would be refused today: %s is not changed", r.Name, named(r))
	case !without:
		return fmt.Errorf("the plan cannot be made, so %s is not changed; --without-plan goes on all the same: %w", named(r), err)
	default:
		fmt.Fprintf(out, "What this changes in the cloud is not known: %s\n", terminal.Printable(err.Error()))
	}
	if !yes && !terminal.Confirmed(cmd.InOrStdin(), out, fmt.Sprintf("\nApply revision %s of %s?", r.Name, named(r))) {
		fmt.Fprintln(out, "Nothing was changed.")
		return terminal.ErrNo
	}
	if live == nil {
		err = c.Create(ctx, next, client.FieldOwner(manager))
	} else {
		err = c.Update(ctx, next, client.FieldOwner(manager))
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s was changed by somebody while you looked: nothing was written, run this again", named(r))
	case err != nil:
		return fmt.Errorf("write %s: %w", named(r), err)
	}
	fmt.Fprintf(
		out,
		"%s is again as in revision %s. What becomes of it: nephele history %s\n",
		named(r),
		r.Name,
		strings.TrimPrefix(r.Spec.Object.Namespace+"/"+r.Spec.Object.Name, "/"),
	)
	return nil
}

// named is the object of a revision.
func named(r *history.Revision) string {
	o := r.Spec.Object
	kind := o.Kind
	if kind == "NetworkPolicy" && o.Group == "crd.antrea.io" {
		kind = "AntreaNetworkPolicy"
	}
	return terminal.Printable(kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
}

// manifestText is an object in YAML.
func manifestText(o *unstructured.Unstructured) (string, error) {
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return "", fmt.Errorf("write the manifest: %w", err)
	}
	return string(text), nil
}

// table is the list for people.
func table(all []history.Revision) string {
	if len(all) == 0 {
		return "No change is recorded.\n"
	}
	rows := [][]string{{"WHEN", "REVISION", "CHANGE", "BY", "RESULT"}}
	for i := range all {
		r := &all[i]
		rows = append(rows, []string{r.Spec.Time.UTC().Format("2006-01-02 15:04:05"), r.Name, changed(r), by(r), became(r)})
	}
	return columns(rows)
}

// columns sets rows in columns; the last one is as long as it is.
func columns(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			row[i] = terminal.Printable(cell)
			if i >= len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(row[i])))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell
			if i < len(row)-1 {
				line += strings.Repeat(" ", widths[i]-len([]rune(cell))+2)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// changed is what was done, and whether that is certain.
func changed(r *history.Revision) string {
	if r.Unproven != "" {
		return string(r.Spec.Change) + ", unproven"
	}
	return string(r.Spec.Change)
}

// by is the author of a change, if known.
func by(r *history.Revision) string {
	a := r.Spec.Author
	switch {
	case a.User != "" && a.Manager != "":
		return a.User + " (" + a.Manager + ")"
	case a.User != "":
		return a.User
	case a.Manager != "":
		return "? (" + a.Manager + ")"
	}
	return "?"
}

// became is what became of a change, in short.
func became(r *history.Revision) string {
	s := r.Status
	var parts []string
	for _, p := range []string{s.Phase, s.VMs} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	text := strings.Join(parts, " ")
	if s.Message != "" {
		text += ": " + s.Message
	}
	if len(text) > 100 {
		text = strings.ToValidUTF8(text[:97], "") + "..."
	}
	if failed := failedCalls(r); failed > 0 {
		text += fmt.Sprintf(" (%s)", terminal.Plural(failed, "call failed", "calls failed"))
	}
	return text
}

func failedCalls(r *history.Revision) int {
	n := int64(0)
	for _, a := range r.Status.Accounts {
		n += a.Failed
	}
	return int(n)
}

// showRevision reports one change.
func showRevision(ctx context.Context, c client.Reader, r *history.Revision, out io.Writer) error {
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintln(out, terminal.Folded(fmt.Sprintf("%-10s", name), strings.Repeat(" ", 10), terminal.Printable(text)))
		}
	}
	s := r.Spec
	line("Revision", r.Name)
	line("Object", fmt.Sprintf("%s, generation %d", named(r), s.Generation))
	line("Change", fmt.Sprintf("%s at %s", s.Change, s.Time.UTC().Format(time.RFC3339)))
	line("By", by(r))
	if s.Merged > 0 {
		line("Note", fmt.Sprintf("%s before it came too fast to be kept apart.", terminal.Plural(int(s.Merged), "change", "changes")))
	}
	line("Result", strings.TrimSpace(r.Status.Phase+" "+r.Status.VMs))
	line("", r.Status.Message)
	for _, a := range r.Status.Accounts {
		line("Account", accountCalls(a.Calls, a.Account))
		if a.Failed > 0 {
			line("", fmt.Sprintf("%s, the last one: %s", terminal.Plural(int(a.Failed), "call failed", "calls failed"), a.LastError))
		}
	}
	former, err := history.Before(ctx, c, r)
	if err != nil {
		return err
	}
	before, after := "", ""
	if former != nil {
		then, err := history.Content(&former.Spec)
		if err != nil {
			line("Note", fmt.Sprintf("revision %s: %v", former.Name, err))
		} else if before, err = manifestText(then); err != nil {
			return err
		}
	}
	if then, err := history.Content(&s); err == nil {
		if after, err = manifestText(then); err != nil {
			return err
		}
	} else if s.Change != "Deleted" {
		line("Note", err.Error())
		return nil
	}
	title := "What it was then:"
	if former != nil {
		title = "Against revision " + former.Name + ":"
	}
	fmt.Fprintf(out, "\n%s\n\n%s\n", title, terminal.PrintableLines(strings.Join(lineDiff(before, after), "\n")))
	return nil
}

func accountCalls(calls map[string]int64, account string) string {
	var parts []string
	for _, name := range slices.Sorted(stdmaps.Keys(calls)) {
		parts = append(parts, fmt.Sprintf("%d %s", calls[name], name))
	}
	if len(parts) == 0 {
		return account + ": no call has succeeded"
	}
	return account + ": " + strings.Join(parts, ", ")
}

func pointers(all []history.Revision) []*history.Revision {
	out := make([]*history.Revision, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out
}
