package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
)

// Simulate brings a description of a cloud to life, so that it is read as a real one is. The
// returned function ends it. A description that leaves out what its rest refers to is an error: a
// plan made on it would be one for another account.
func Simulate(ctx context.Context, in *preview.Inputs, description string) (preview.Opener, func(), error) {
	if azure, err := onlyAzure(in.Objects.Accounts); azure || err != nil {
		if err != nil {
			return nil, nil, err
		}
		return describe(ctx, in, description)
	}
	state, report, err := estate.Load(description)
	if err != nil {
		return nil, nil, fmt.Errorf("--snapshot: %w", err)
	}
	if in.Gaps, err = gapsOf(report, in.Objects.Accounts); err != nil {
		return nil, nil, err
	}
	for _, w := range report.Warnings {
		in.Notes = append(in.Notes, "snapshot: "+w.String())
	}
	in.Claimants = claimants(state)
	giveKeys(&state)
	server, err := sim.Start(ctx, sim.Options{State: state})
	if err != nil {
		return nil, nil, fmt.Errorf("--snapshot: %w", err)
	}
	open := func(_ context.Context, a *v1alpha1.CloudProviderAccount) (preview.Reader, error) {
		described, err := describedAccount(state, a.Name)
		if err != nil {
			return nil, fmt.Errorf("--snapshot %s: %w", description, err)
		}
		if described.Alias != a.Name && described.ID != a.Name {
			in.Notes = append(in.Notes, fmt.Sprintf("snapshot: account %s/%s is taken for %s, the only account there", a.Namespace, a.Name, described.ID))
		}
		for _, region := range a.Spec.AWSConfig.Region {
			if !slices.Contains(described.Regions, region) {
				return nil, fmt.Errorf("--snapshot %s: region %s is not in it: spec.awsConfig.region of the account must be of %s",
					description, region, strings.Join(described.Regions, ", "))
			}
		}
		i := slices.IndexFunc(state.Credentials, func(c simaws.Credential) bool { return c.Account == described.ID })
		key := state.Credentials[i]
		return aws.New(aws.Config{
			Credential: v1alpha1.AWSCredential{AccessKeyID: key.AccessKeyID, AccessKeySecret: key.Secret, SessionToken: key.SessionToken},
			Region:     a.Spec.AWSConfig.Region[0], Endpoint: server.URL(), Limits: clouds.LimitsOf(a.Spec.AWSConfig.Quotas), UserAgent: "nephele-plan",
		})
	}
	return open, func() { _ = server.Close() }, nil
}

// claimants are the clusters that the VPCs of a description belong to, sorted.
func claimants(state simaws.State) []string {
	var ids []string
	for _, r := range state.Regions {
		for _, v := range r.VPCs {
			if id := v.Tags[cloud.TagClaim]; id != "" {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// clusterOf is the id of the cluster that a snapshot is planned for: the one that is told, or else
// the only one that VPCs there belong to.
func clusterOf(in *preview.Inputs, told string) string {
	switch {
	case told != "":
		return told
	case len(in.Claimants) == 1:
		in.Notes = append(in.Notes, "snapshot: its VPCs belong to the cluster "+in.Claimants[0]+", which is taken for this one; --cluster-id says otherwise")
		return in.Claimants[0]
	case len(in.Claimants) > 1:
		in.Warnings = append(in.Warnings, preview.Warning{Reason: preview.WarnManyClusters, Message: "the VPCs of the snapshot belong to several clusters, and none is taken for this one: give --cluster-id, one of " + strings.Join(in.Claimants, ", ")})
	}
	return preview.OfflineCluster
}

// gapsOf says what the description does not tell of the regions of the accounts and need not tell;
// that it must is an error.
func gapsOf(report source.Report, accounts []*v1alpha1.CloudProviderAccount) (bearable []string, err error) {
	asked := func(region string) bool {
		return region == "" || slices.ContainsFunc(accounts, func(a *v1alpha1.CloudProviderAccount) bool {
			return a.Spec.AWSConfig != nil && slices.Contains(a.Spec.AWSConfig.Region, region)
		})
	}
	var errs []error
	for _, g := range report.Gaps {
		switch {
		case !asked(g.Region):
		case g.Needed:
			errs = append(errs, fmt.Errorf("--snapshot: %s: %s: not in the snapshot: expected %s", g.Place, g.Object, g.Expected))
		default:
			bearable = append(bearable, fmt.Sprintf("%s: no %s: taken as %s", g.Place, g.Object, g.Taken))
		}
	}
	return bearable, errors.Join(errs...)
}

// giveKeys gives every account that has no key one.
func giveKeys(state *simaws.State) {
	for i, a := range state.Accounts {
		if !slices.ContainsFunc(state.Credentials, func(c simaws.Credential) bool { return c.Account == a.ID }) {
			state.Credentials = append(state.Credentials, simaws.Credential{
				AccessKeyID: fmt.Sprintf("AKIASNAPSHOT%08d", i), Secret: "snapshot-" + a.ID, Account: a.ID,
			})
		}
	}
}

// describedAccount is the account of a description whose alias or number is the name, or the only
// one.
func describedAccount(state simaws.State, name string) (simaws.Account, error) {
	var names []string
	for _, a := range state.Accounts {
		if a.Alias == name || a.ID == name {
			return a, nil
		}
		names = append(names, strings.TrimSpace(a.ID+" "+a.Alias))
	}
	if len(state.Accounts) == 1 {
		return state.Accounts[0], nil
	}
	return simaws.Account{}, fmt.Errorf(
		"it has the accounts %s, and none whose number or alias is %s: name the CloudProviderAccount after one of them",
		strings.Join(names, ", "),
		name,
	)
}

// AddSnapshot adds the accounts in a snapshot, and what the selectors make of them.
func AddSnapshot(cmd *cobra.Command, in *preview.Inputs, path string) error {
	open, stop, err := Simulate(cmd.Context(), in, path)
	if err != nil {
		return err
	}
	defer stop()
	if len(in.Objects.Accounts) == 0 {
		return errors.New("there is no CloudProviderAccount: it says which account and regions of the snapshot are meant")
	}
	p := &preview.Planner{In: in, ClusterID: preview.OfflineCluster, Lowerers: clouds.LowererOf, Open: open, Close: stop}
	var read preview.ObservedAccounts
	for _, a := range in.Objects.Accounts {
		o, err := p.Observe(cmd.Context(), a)
		if err != nil {
			return err
		}
		if len(o.Missing) > 0 {
			return errors.Join(o.Missing...)
		}
		in.ImportEntities(a, o)
		read = append(read, o)
	}
	in.KnowClouds(read)
	return nil
}

// SnapshotPlanner plans for manifests, in clouds that are a description and nothing else. The id is
// the cluster whose groups there are ours; empty for the only one that there is.
func SnapshotPlanner(cmd *cobra.Command, files []string, stdin io.Reader, snapshot, clusterID string) (*preview.Planner, error) {
	if len(files) == 0 {
		return nil, errors.New("--snapshot needs -f: want the manifests of the account, the selectors and the policies")
	}
	in, err := preview.LoadInputs(files, stdin)
	if err != nil {
		return nil, err
	}
	if err := terminal.Refused(cmd, in.Refused); err != nil {
		return nil, err
	}
	open, stop, err := Simulate(cmd.Context(), in, snapshot)
	if err != nil {
		return nil, err
	}
	return &preview.Planner{In: in, ClusterID: clusterOf(in, clusterID), Lowerers: clouds.LowererOf, Open: open, Close: stop}, nil
}
