package plancmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/platform/egress"
	"github.com/nephele-io/nephele/internal/preview"
)

// planFlags are the flags of plan.
type planFlags struct {
	files     []string
	snapshot  string
	clusterID string
	output    string
	all       bool
	strict    strictness
	staged    source.StagedFlags
	flows     string
	cluster   source.ClusterFlags
	access    source.AccessFlags
	// stdin is what was read of the standard input.
	stdin []byte
}

// Command is "plan".
func Command() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan [-f FILE_OR_DIR...] [--snapshot FILE_OR_DIR] [-o json]",
		Short: "Show what would change in the cloud",
		Long: `Plan shows, for every cloud account, which security groups would be created, changed, attached and deleted to enforce the
policies, in order, and what cannot be done; how full the quotas are before and after; and which flows open and which close.
The cloud is only read; nothing is changed.

Without flags it is about the cluster as it is. With -f it is about the cluster with these manifests applied. The controller of the
cluster answers, from what it has read of the clouds; with --local, or where none answers, the clouds are read from here. With
--snapshot as well, nothing but files is read: the manifests hold accounts, selectors, entities and policies, and the
snapshot is a description of the account as "nephele sim" takes it (for example a folder of answers of "aws ec2 describe-..."). It has
to be whole (docs/simulator.md); of several accounts in it, that counts whose alias or number is the CloudProviderAccount's name.
A subscription of Azure is described by what Resource Graph tells of it (docs/azure.md).

The exit code is 0 if nothing is to be done but to write tags, 1 if something is or is refused, 2 if the plan cannot be made, or not for all accounts.
What looks like a mistake, as a selector that selects no VM, is a warning and changes it only with --strict; --tolerate names those that do not.
docs/ask.md explains the output and the JSON.`,
		Example: `  nephele plan
  nephele plan -f new-policy.yaml
  nephele plan -f account.yaml -f selector.yaml -f policies/ --snapshot ./my-account -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPlan(cmd, &f) },
	}
	flags := c.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or directory with manifests, or - for the standard input; may be repeated")
	flags.StringVar(&f.snapshot, "snapshot", "", "file or folder that describes the cloud account; then no cluster and no cloud is asked")
	flags.StringVar(
		&f.clusterID,
		"cluster-id",
		"",
		"with --snapshot: the id of the cluster whose groups in the account are ours (default: the only one that the VPCs there belong to)",
	)
	flags.StringVarP(&f.output, "output", "o", "", "json or yaml, or nothing for text")
	flags.StringVar(&f.flows, "flows", "", "tell as well what would become of the connections that agents have seen since: how long ago, such as 1h, or a time")
	flags.BoolVar(&f.all, "all", false, "name all that is changed, refused or noted alike, in place of some and a number")
	f.strict.register(flags)
	f.staged.Register(flags)
	f.cluster.Register(flags)
	f.cluster.RegisterLocal(flags)
	f.access.Register(flags, egress.Loopback)
	return c
}

func runPlan(cmd *cobra.Command, f *planFlags) error {
	if f.output != "" && f.output != "json" && f.output != "yaml" {
		return fmt.Errorf("--output %q: want json or yaml, or nothing for text", f.output)
	}
	if err := f.strict.check(); err != nil {
		return err
	}
	if _, err := f.access.Access(); err != nil {
		return err
	}
	answer, err := f.ask(cmd)
	if err != nil {
		return err
	}
	if answer == nil {
		if f.flows != "" {
			return errors.New("--flows: only the controller of the cluster knows what agents have seen, and it cannot be asked; of flow logs, nephele flows --affected tells")
		}
		if answer, err = f.workOut(cmd); err != nil {
			return err
		}
	}
	if len(answer.Accounts) == 0 && answer.Flows == nil {
		return errors.New("there is no CloudProviderAccount: nothing is to be enforced in any cloud")
	}
	if len(answer.Accounts) > 0 && !slices.ContainsFunc(answer.Accounts, func(a analysis.AccountPlan) bool { return a.Error == "" }) {
		return preview.Unreadable(answer)
	}
	if f.output == "" {
		err = show.Plans(terminal.WindowOf(cmd.OutOrStdout()), *answer, f.all)
	} else {
		err = terminal.PrintValue(cmd.OutOrStdout(), f.output, answer)
	}
	if err != nil {
		return err
	}
	return outcomeOf(*answer, f.strict)
}

// workOut plans here.
func (f *planFlags) workOut(cmd *cobra.Command) (*analysis.PlanAnswer, error) {
	p, err := f.prepare(cmd)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	p.In.Objects.WithStaged = f.staged.With
	if len(p.In.Objects.Accounts) == 0 {
		return &analysis.PlanAnswer{}, nil
	}
	made, err := p.Plan(cmd.Context())
	terminal.Notes(cmd, p.In.Notes)
	if err != nil {
		return nil, err
	}
	answer := p.Answer(made)
	return &answer, nil
}

// prepare reads what the plan is made from.
func (f *planFlags) prepare(cmd *cobra.Command) (*preview.Planner, error) {
	if f.snapshot != "" {
		stdin, err := f.input(cmd)
		if err != nil {
			return nil, err
		}
		return source.SnapshotPlanner(cmd, f.files, stdin, f.snapshot, f.clusterID)
	}
	access, err := f.access.Access()
	if err != nil {
		return nil, err
	}
	c, err := f.cluster.ClientOrFiles()
	if err != nil {
		return nil, err
	}
	stdin, err := f.input(cmd)
	if err != nil {
		return nil, err
	}
	p, err := source.PlanOver(cmd.Context(), c, f.files, stdin, access)
	if err != nil {
		return nil, err
	}
	return p, terminal.Refused(cmd, p.In.Refused)
}

// Preview computes what applying the manifests in files to a cluster would change in one of its
// accounts, as the command plan does. The cluster and the cloud are only read, the cloud at its own
// endpoints or at one on this machine. An object that admission would refuse is an error.
func Preview(ctx context.Context, cfg *rest.Config, account types.NamespacedName, files []string) (*plan.Result, error) {
	c, err := source.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	p, err := source.PlanOver(ctx, c, files, strings.NewReader(""), clouds.LocalAccess())
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if len(p.In.Refused) > 0 {
		return nil, errors.New(p.In.Refused[0].String())
	}
	all := p.In.Objects.Accounts
	p.In.Objects.Accounts = nil
	for _, a := range all {
		if client.ObjectKeyFromObject(a) == account {
			p.In.Objects.Accounts = append(p.In.Objects.Accounts, a)
		} else {
			p.Neighbours = append(p.Neighbours, a)
		}
	}
	if len(p.In.Objects.Accounts) == 0 {
		return nil, fmt.Errorf("there is no CloudProviderAccount %s", account)
	}
	made, err := p.Plan(ctx)
	if err != nil {
		return nil, err
	}
	if err := made.Unreadable(); err != nil {
		return nil, err
	}
	return made.Accounts[0].Result, nil
}

// outcome is how the command ends.
func outcomeOf(a analysis.PlanAnswer, strict strictness) error {
	todo := false
	for _, x := range a.Accounts {
		todo = todo || len(x.Plan.Steps) > 0 && !x.TagsOnly || len(x.Refusals) > 0
	}
	if a.Flows != nil {
		todo = todo || a.Flows.Cut > 0 || a.Flows.Opened > 0
	}
	if err := preview.Unreadable(&a); err != nil {
		return err
	}
	if err := strict.outcome(&a); err != nil {
		return err
	}
	if todo {
		return terminal.ErrNo
	}
	return nil
}
