package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// planFlags are the flags of plan.
type planFlags struct {
	files     []string
	snapshot  string
	clusterID string
	output    string
	all       bool
	strict    strictness
	staged    stagedFlags
	cluster   clusterFlags
	access    AccessFlags
}

func newPlanCommand() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan [-f FILE_OR_DIR...] [--snapshot FILE_OR_DIR] [-o json]",
		Short: "Show what would change in the cloud",
		Long: `Plan shows, for every cloud account, which security groups would be created, changed, attached and deleted to enforce the
policies, in order, and what cannot be done; how full the quotas are before and after; and which flows open and which close.
The cloud is only read; nothing is changed.

Without flags it is about the cluster as it is. With -f it is about the cluster with these manifests applied. With
--snapshot as well, nothing but files is read: the manifests hold accounts, selectors, entities and policies, and the
snapshot is a description of the account as "nephele sim" takes it (for example a folder of answers of "aws ec2 describe-..."). It has
to be whole (docs/simulator.md); of several accounts in it, that counts whose alias or number is the CloudProviderAccount's name.
A subscription of Azure is described by what Resource Graph tells of it (docs/azure.md).

The exit code is 0 if nothing is to be done but to write tags, 1 if something is or is refused, 2 if the plan cannot be made, or not for all accounts.
What looks like a mistake, as a selector that selects no VM, is a warning and changes it only with --strict; --tolerate names those that do not.
docs/plan.md explains the output and the JSON.`,
		Example: `  nephele plan
  nephele plan -f new-policy.yaml
  nephele plan -f account.yaml -f selector.yaml -f policies/ --snapshot ./my-account -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPlan(cmd, f) },
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
	flags.BoolVar(&f.all, "all", false, "name all that is changed, refused or noted alike, in place of some and a number")
	f.strict.register(flags)
	f.staged.register(flags)
	f.cluster.register(flags)
	f.access.Register(flags, egress.Loopback)
	return c
}

// offlineCluster is the identity of a cluster that does not exist.
const offlineCluster = "offline"

func runPlan(cmd *cobra.Command, f planFlags) error {
	if f.output != "" && f.output != "json" && f.output != "yaml" {
		return fmt.Errorf("--output %q: want json or yaml, or nothing for text", f.output)
	}
	if err := f.strict.check(); err != nil {
		return err
	}
	p, err := f.prepare(cmd)
	if err != nil {
		return err
	}
	defer p.close()
	p.in.WithStaged = f.staged.with
	if len(p.in.Accounts) == 0 {
		return errors.New("there is no CloudProviderAccount: nothing is to be enforced in any cloud")
	}
	made, err := p.plan(cmd.Context())
	notes(cmd, p.in.notes)
	if err != nil {
		return err
	}
	if len(made.accounts) == 0 {
		return made.unreadable()
	}
	answer := p.answer(made)
	if f.output == "" {
		err = printPlans(windowOf(cmd.OutOrStdout()), answer, f.all)
	} else {
		err = printValue(cmd.OutOrStdout(), f.output, answer)
	}
	if err != nil {
		return err
	}
	return answer.outcome(made.unreadable(), f.strict)
}

// prepare reads what the plan is made from.
func (f planFlags) prepare(cmd *cobra.Command) (*planner, error) {
	if f.snapshot != "" {
		if len(f.files) == 0 {
			return nil, errors.New("--snapshot needs -f: want the manifests of the account, the selectors and the policies")
		}
		in, err := loadInputs(f.files, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		if err := reportRefused(cmd, in.refused); err != nil {
			return nil, err
		}
		open, stop, err := simulate(cmd.Context(), in, f.snapshot)
		if err != nil {
			return nil, err
		}
		return &planner{in: in, clusterID: in.clusterOf(f.clusterID), open: open, close: stop}, nil
	}
	access, err := f.access.Access()
	if err != nil {
		return nil, err
	}
	c, err := f.cluster.client()
	if err != nil {
		return nil, err
	}
	p, err := planOver(cmd.Context(), c, f.files, cmd.InOrStdin(), access)
	if err != nil {
		return nil, err
	}
	return p, reportRefused(cmd, p.in.refused)
}

// planOver plans for a cluster with the manifests in files applied to it. What of these admission
// would refuse is in in.refused.
func planOver(ctx context.Context, c client.Reader, files []string, stdin io.Reader, access controller.Access) (*planner, error) {
	id, err := controller.ClusterID(ctx, c)
	if err != nil {
		return nil, err
	}
	in, err := readInputs(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(files) > 0 {
		over, err := readManifests(files, stdin, in.Tiers)
		if err != nil {
			return nil, err
		}
		in.overlay(over)
	}
	return &planner{in: in, clusterID: id, open: openFromCluster(c, in.secrets, controller.CloudParts{Cluster: id, Access: access}), close: func() {}}, nil
}

// Preview computes what applying the manifests in files to a cluster would change in one of its
// accounts, as the command plan does. The cluster and the cloud are only read, the cloud at its own
// endpoints or at one on this machine. An object that admission would refuse is an error.
func Preview(ctx context.Context, cfg *rest.Config, account types.NamespacedName, files []string) (*plan.Result, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	p, err := planOver(ctx, c, files, strings.NewReader(""), controller.LocalAccess())
	if err != nil {
		return nil, err
	}
	defer p.close()
	if len(p.in.refused) > 0 {
		return nil, errors.New(p.in.refused[0].String())
	}
	all := p.in.Accounts
	p.in.Accounts = nil
	for _, a := range all {
		if client.ObjectKeyFromObject(a) == account {
			p.in.Accounts = append(p.in.Accounts, a)
		} else {
			p.neighbours = append(p.neighbours, a)
		}
	}
	if len(p.in.Accounts) == 0 {
		return nil, fmt.Errorf("there is no CloudProviderAccount %s", account)
	}
	made, err := p.plan(ctx)
	if err != nil {
		return nil, err
	}
	if err := made.unreadable(); err != nil {
		return nil, err
	}
	return made.accounts[0].result, nil
}

// planner makes the plans of all accounts.
type planner struct {
	in        *inputs
	clusterID string
	open      opener
	close     func()
	// neighbours are accounts that no plan is made for.
	neighbours []*cloudv1alpha1.CloudProviderAccount
}

// plannedAccount is an account as it was read, and what is to be done there.
type plannedAccount struct {
	*observedAccount
	result   *plan.Result
	forecast *forecast.Forecast
	// modes are those of the VMs that are not simply enforced.
	modes    map[plan.VMRef]realize.VMMode
	failsafe []plan.FailsafeFlow
	// maxPerWave bounds what is done of the plan at once; 0 means nothing does.
	maxPerWave int
	// brake is what would wait for a confirmation, and live what the controller says to wait for.
	brake *plannedBrake
	live  string
}

// plans are what was made of all accounts.
type plans struct {
	accounts []plannedAccount
	// failed are the accounts that could not be read, in their order.
	failed []failedAccount
	// computed are the policies and groups of all enforcers.
	computed view
	// computation is what they were computed from.
	computation *computation
}

// failedAccount is an account that could not be read.
type failedAccount struct {
	key string
	err error
}

// unreadable says which accounts and regions could not be read; nil if all could.
func (p plans) unreadable() error {
	var errs []error
	for _, f := range p.failed {
		errs = append(errs, f.err)
	}
	for _, a := range p.accounts {
		errs = append(errs, a.missing...)
	}
	return errors.Join(errs...)
}

func (p *planner) plan(ctx context.Context) (plans, error) {
	var observed observedAccounts
	var out plans
	for _, a := range p.in.Accounts {
		o, err := p.observe(ctx, a)
		if err != nil {
			out.failed = append(out.failed, failedAccount{cloud.AccountKey(a.Namespace, a.Name), err})
			p.in.importEntities(a, &observedAccount{enforcerKey: cloud.EnforcerKey(a.Namespace, a.Name)}) // what is not granted goes all the same
			continue
		}
		p.in.importEntities(a, o)
		observed = append(observed, o)
	}
	known := append(observed, p.observeNeighbours(ctx, observed)...)
	c := compute(p.in)
	out.computation = c
	for _, r := range c.in.refused {
		p.in.notes = append(p.in.notes, "left out, as by the controller: "+r.String())
	}
	store := watchstore.New(watchstore.Options{})
	store.Publish(convert.Delta(c.Delta))
	var err error
	if out.computed, err = viewOf(store, ""); err != nil {
		return plans{}, err
	}
	for _, o := range observed {
		acct := controller.Describe(known, o.key)
		in, err := p.input(acct, o, store)
		if err != nil {
			return plans{}, err
		}
		planned := plannedAccount{observedAccount: o, modes: acct.Modes, failsafe: in.Failsafe, maxPerWave: acct.MaxPerWave}
		actual := in
		in = in.WithoutPlanned()
		in.Stop = func() bool { return ctx.Err() != nil }
		if planned.forecast, err = forecast.Run(in, acct.Lowerer); err != nil {
			return plans{}, fmt.Errorf("account %s: %w", o.key, err)
		}
		planned.result = planned.forecast.Rounds[0]
		if planned.brake = braked(acct, actual, planned.result); planned.brake == nil {
			planned.live = p.brakedLive(o.key)
		}
		out.accounts = append(out.accounts, planned)
	}
	return out, nil
}

// input is what the realizer would plan from.
func (p *planner) input(acct realize.Account, o *observedAccount, computed *watchstore.Store) (plan.Input, error) {
	v, err := viewOf(computed, o.enforcerKey)
	if err != nil {
		return plan.Input{}, err
	}
	want := enforcer.Computed{Policies: v.policies, AddressGroups: v.addressGroups, AppliedToGroups: v.appliedToGroups}
	return acct.PlanInput(p.clusterID, want, p.in.tighten, o.regions), nil
}

// observeNeighbours reads the accounts that no plan is made for, if they may have VMs in networks
// that the observed ones see. What cannot be read is not known, as to a controller that has not
// read it yet.
func (p *planner) observeNeighbours(ctx context.Context, observed observedAccounts) observedAccounts {
	sees := slices.ContainsFunc(observed, func(o *observedAccount) bool {
		return slices.ContainsFunc(o.regions, func(r plan.Region) bool { return len(controller.SharedNetworks(r.Snapshot)) > 0 })
	})
	if !sees {
		return nil
	}
	var out observedAccounts
	for _, a := range p.neighbours {
		o, err := p.observe(ctx, a)
		if err != nil {
			p.in.notes = append(p.in.notes, "members of other accounts in shared networks are not known: "+err.Error())
			continue
		}
		p.in.importEntities(a, o)
		out = append(out, o)
	}
	return out
}
