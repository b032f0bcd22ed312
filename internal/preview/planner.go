package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// OfflineCluster is the identity of a cluster that does not exist.
const OfflineCluster = "offline"

// Planner makes the plans of all accounts.
type Planner struct {
	In        *Inputs
	ClusterID string
	Open      Opener
	Close     func()
	// Lowerers holds the lowerers of the clouds that are supported.
	Lowerers Lowerers
	// Neighbours are accounts that no plan is made for.
	Neighbours []*cloudv1alpha1.CloudProviderAccount
}

// plannedAccount is an account as it was read, and what is to be done there.
type plannedAccount struct {
	*ObservedAccount
	Result   *plan.Result
	Forecast *forecast.Forecast
	lowerer  plan.Lowerer
	// modes holds the modes of the VMs that are not simply enforced.
	modes    map[plan.VMRef]realize.VMMode
	failsafe []plan.FailsafeFlow
	// maxPerWave bounds what is done of the plan at once; 0 means nothing does.
	maxPerWave int
	// agented are the VMs that selectors hand to agents.
	agented agented
	// brake is what would wait for a confirmation, and live what the controller says to wait for.
	brake *analysis.PlanBrake
	live  string
}

// plans are what was made of all accounts.
type plans struct {
	Accounts []plannedAccount
	// failed are the accounts that could not be read, in their order.
	failed []failedAccount
	// computed are the policies and groups of all enforcers.
	computed View
	// computation is what they were computed from.
	computation *Computation
}

// failedAccount is an account that could not be read.
type failedAccount struct {
	key string
	err error
}

// Unreadable says which accounts and regions could not be read; nil if all could.
func (p plans) Unreadable() error {
	var errs []error
	for _, f := range p.failed {
		errs = append(errs, f.err)
	}
	for _, a := range p.Accounts {
		errs = append(errs, a.Missing...)
	}
	return errors.Join(errs...)
}

func (p *Planner) Plan(ctx context.Context) (plans, error) {
	var observed ObservedAccounts
	var out plans
	for _, a := range p.In.Objects.Accounts {
		if ctx.Err() != nil {
			return plans{}, ctx.Err()
		}
		o, err := p.Observe(ctx, a)
		if err != nil {
			out.failed = append(out.failed, failedAccount{cloud.AccountKey(a.Namespace, a.Name), err})
			p.In.ImportEntities(a, &ObservedAccount{EnforcerKey: cloud.EnforcerKey(a.Namespace, a.Name)}) // what is not granted goes all the same
			continue
		}
		p.In.ImportEntities(a, o)
		observed = append(observed, o)
	}
	p.In.KnowClouds(observed)
	known := append(observed, p.observeNeighbours(ctx, observed)...)
	c := Compute(p.In)
	if ctx.Err() != nil {
		return plans{}, ctx.Err()
	}
	out.computation = c
	for _, r := range c.In.Refused {
		p.In.Notes = append(p.In.Notes, "left out, as by the controller: "+r.String())
	}
	store := watchstore.New(watchstore.Options{})
	store.Publish(convert.Delta(c.Computed.Delta))
	var err error
	if out.computed, err = ViewOf(store, ""); err != nil {
		return plans{}, err
	}
	for _, o := range observed {
		if ctx.Err() != nil {
			return plans{}, ctx.Err()
		}
		acct := Describe(known, o.Key, p.Lowerers)
		in, err := p.Input(acct, o, store)
		if err != nil {
			return plans{}, err
		}
		handed, err := p.agents(acct, store)
		if err != nil {
			return plans{}, err
		}
		in.Agents = handed.left
		planned := plannedAccount{ObservedAccount: o, lowerer: acct.Lowerer, agented: handed, modes: acct.Modes, failsafe: in.Failsafe, maxPerWave: acct.MaxPerWave}
		actual := in
		in = in.WithoutPlanned()
		in.Stop = func() bool { return ctx.Err() != nil }
		if planned.Forecast, err = forecast.Run(in, acct.Lowerer); err != nil {
			return plans{}, fmt.Errorf("account %s: %w", o.Key, err)
		}
		planned.Result = planned.Forecast.Rounds[0]
		if planned.brake = braked(acct, actual, planned.Result); planned.brake == nil {
			planned.live = p.BrakedLive(o.Key)
		}
		out.Accounts = append(out.Accounts, planned)
	}
	return out, nil
}

// Input is what the realizer would plan from.
func (p *Planner) Input(acct realize.Account, o *ObservedAccount, computed *watchstore.Store) (plan.Input, error) {
	v, err := ViewOf(computed, o.EnforcerKey)
	if err != nil {
		return plan.Input{}, err
	}
	want := enforcer.Computed{Policies: v.Policies, AddressGroups: enforcer.NewAddressGroups(v.AddressGroups), AppliedToGroups: v.AppliedToGroups}
	return acct.PlanInput(p.ClusterID, want, o.Regions), nil
}

// observeNeighbours reads the accounts that no plan is made for, if they may have VMs in networks
// that the observed ones see. What cannot be read is not known, as to a controller that has not
// read it yet.
func (p *Planner) observeNeighbours(ctx context.Context, observed ObservedAccounts) ObservedAccounts {
	sees := slices.ContainsFunc(observed, func(o *ObservedAccount) bool {
		return slices.ContainsFunc(o.Regions, func(r plan.Region) bool { return len(SharedNetworks(r.Snapshot)) > 0 })
	})
	if !sees {
		return nil
	}
	var out ObservedAccounts
	for _, a := range p.Neighbours {
		o, err := p.Observe(ctx, a)
		if err != nil {
			p.In.Notes = append(p.In.Notes, "members of other accounts in shared networks are not known: "+err.Error())
			continue
		}
		p.In.ImportEntities(a, o)
		out = append(out, o)
	}
	return out
}
