package explaincmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/platform/egress"
	"github.com/nephele-io/nephele/internal/preview"
)

// explainClouds says from where explain knows what the clouds hold.
type explainClouds struct {
	snapshot, clusterID string
	unread              bool
	access              source.AccessFlags
}

func (f *explainClouds) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.snapshot, "snapshot", "", "with -f: file or folder that describes the cloud account, as \"nephele plan\" takes it")
	flags.StringVar(&f.clusterID, "cluster-id", "", "with --snapshot: the id of the cluster whose groups in the account are ours")
	flags.BoolVar(&f.unread, "no-cloud", false, "do not read the clouds of the cluster's accounts: tell only what statuses say")
	f.access.Register(flags, egress.Loopback)
}

// read reads what a question is answered from. From manifests everything must be accepted, or the
// answers would be about something else than what stands there; in a cluster the controller goes on
// as well.
func (f *explainFlags) read(cmd *cobra.Command) (*preview.Computation, error) {
	switch {
	case f.clouds.snapshot != "":
		return f.readSnapshot(cmd)
	case len(f.files) > 0:
		in, err := preview.LoadInputs(f.files, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		c := preview.Compute(in)
		terminal.Notes(cmd, in.Notes)
		return c, terminal.Refused(cmd, in.Refused)
	}
	return f.readCluster(cmd)
}

// readSnapshot takes the policies from manifests and the clouds from a description.
func (f *explainFlags) readSnapshot(cmd *cobra.Command) (*preview.Computation, error) {
	p, err := source.SnapshotPlanner(cmd, f.files, cmd.InOrStdin(), f.clouds.snapshot, f.clouds.clusterID)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if len(p.In.Objects.Accounts) == 0 {
		return nil, errors.New("--snapshot: there is no CloudProviderAccount in the manifests that says which account it is of")
	}
	c, err := p.ReadAll(cmd.Context())
	if err != nil {
		return nil, err
	}
	terminal.Notes(cmd, p.In.Notes)
	return c, terminal.Refused(cmd, p.In.Refused)
}

// readCluster takes everything from the cluster, and the clouds of the accounts that the two ends
// belong to from these.
func (f *explainFlags) readCluster(cmd *cobra.Command) (*preview.Computation, error) {
	c, err := f.cluster.ClientOrFiles()
	if err != nil {
		return nil, err
	}
	computed, err := f.readFrom(cmd.Context(), c)
	if err != nil {
		return nil, err
	}
	terminal.Notes(cmd, computed.In.Notes)
	return computed, nil
}

func (f *explainFlags) readFrom(ctx context.Context, c client.Reader) (*preview.Computation, error) {
	in, err := source.Inputs(ctx, c)
	if err != nil {
		return nil, err
	}
	var slices discoveryv1.EndpointSliceList
	if err := c.List(ctx, &slices); err != nil {
		in.Notes = append(in.Notes, fmt.Sprintf("the endpoints of Services follow their selectors, because EndpointSlices cannot be read: %v", err))
	}
	for i := range slices.Items {
		in.Objects.Slices = append(in.Objects.Slices, &slices.Items[i])
	}
	computed := preview.Compute(in)
	if !f.clouds.unread {
		if concerned := computed.Computed.AccountsOf(f.from, f.to); len(concerned) > 0 {
			f.readClouds(ctx, c, in, concerned)
			computed = preview.Recompute(in)
		}
	}
	for _, r := range in.Refused {
		in.Notes = append(in.Notes, "left out, as by the controller: "+r.String())
	}
	return computed, nil
}

// readClouds reads accounts. What cannot be read is noted, and not known.
func (f *explainFlags) readClouds(ctx context.Context, c client.Reader, in *preview.Inputs, keys []string) {
	unread := func(err error) {
		in.Notes = append(in.Notes, "the cloud is not read, only what statuses say is told: "+err.Error())
	}
	id, err := clouds.ClusterID(ctx, c)
	if err != nil {
		unread(err)
		return
	}
	access, err := f.clouds.access.Access()
	if err != nil {
		unread(err)
		return
	}
	p := &preview.Planner{In: in, ClusterID: id, Lowerers: clouds.LowererOf, Open: source.Opener(c, nil, clouds.Parts{Cluster: id, Access: access})}
	var read preview.ObservedAccounts
	for _, a := range in.Objects.Accounts {
		if !slices.Contains(keys, cloud.AccountKey(a.Namespace, a.Name)) {
			continue
		}
		o, err := p.Observe(ctx, a)
		if err != nil {
			unread(err)
			continue
		}
		p.In.ImportEntities(a, o)
		o.ReadACLs(ctx)
		read = append(read, o)
	}
	in.KnowClouds(read)
	in.NoteUnread(read)
}
