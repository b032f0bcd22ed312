package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// explainClouds says from where explain knows what the clouds hold.
type explainClouds struct {
	snapshot, clusterID string
	unread              bool
	access              AccessFlags
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
func (f *explainFlags) read(cmd *cobra.Command) (*computation, error) {
	switch {
	case f.clouds.snapshot != "":
		return f.readSnapshot(cmd)
	case len(f.files) > 0:
		in, err := loadInputs(f.files, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		c := compute(in)
		notes(cmd, in.notes)
		return c, reportRefused(cmd, in.refused)
	}
	return f.readCluster(cmd)
}

// readSnapshot takes the policies from manifests and the clouds from a description.
func (f *explainFlags) readSnapshot(cmd *cobra.Command) (*computation, error) {
	p, err := planFlags{files: f.files, snapshot: f.clouds.snapshot, clusterID: f.clouds.clusterID}.prepare(cmd)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if len(p.in.Accounts) == 0 {
		return nil, errors.New("--snapshot: there is no CloudProviderAccount in the manifests that says which account it is of")
	}
	c, err := p.readAll(cmd.Context())
	if err != nil {
		return nil, err
	}
	notes(cmd, p.in.notes)
	return c, reportRefused(cmd, p.in.refused)
}

// readAll reads all accounts and computes what stands there.
func (p *planner) readAll(ctx context.Context) (*computation, error) {
	var read observedAccounts
	for _, a := range p.in.Accounts {
		o, err := p.observe(ctx, a)
		if err != nil {
			return nil, err
		}
		p.in.importEntities(a, o)
		o.readACLs(ctx)
		read = append(read, o)
	}
	p.in.knowClouds(read)
	if err := p.foresee(read); err != nil {
		return nil, err
	}
	return compute(p.in), nil
}

// readCluster takes everything from the cluster, and the clouds of the accounts that the two ends
// belong to from these.
func (f *explainFlags) readCluster(cmd *cobra.Command) (*computation, error) {
	c, err := f.cluster.client()
	if err != nil {
		return nil, err
	}
	computed, err := f.readFrom(cmd.Context(), c)
	if err != nil {
		return nil, err
	}
	notes(cmd, computed.in.notes)
	return computed, nil
}

func (f *explainFlags) readFrom(ctx context.Context, c client.Reader) (*computation, error) {
	in, err := readInputs(ctx, c)
	if err != nil {
		return nil, err
	}
	var slices discoveryv1.EndpointSliceList
	if err := c.List(ctx, &slices); err != nil {
		in.notes = append(in.notes, fmt.Sprintf("who is behind Services is told by their selectors, because EndpointSlices cannot be read: %v", err))
	}
	in.Slices = pointers(slices.Items)
	computed := compute(in)
	if !f.clouds.unread {
		if concerned := computed.AccountsOf(f.from, f.to); len(concerned) > 0 {
			f.readClouds(ctx, c, in, concerned)
			computed = recompute(in)
		}
	}
	for _, r := range in.refused {
		in.notes = append(in.notes, "left out, as by the controller: "+r.String())
	}
	return computed, nil
}

// recompute computes again, with what has come besides.
func recompute(in *inputs) *computation { return &computation{explain.Compute(&in.Objects), in} }

// readClouds reads accounts. What cannot be read is noted, and not known.
func (f *explainFlags) readClouds(ctx context.Context, c client.Reader, in *inputs, keys []string) {
	unread := func(err error) {
		in.notes = append(in.notes, "the cloud is not read, only what statuses say is told: "+err.Error())
	}
	id, err := controller.ClusterID(ctx, c)
	if err != nil {
		unread(err)
		return
	}
	access, err := f.clouds.access.Access()
	if err != nil {
		unread(err)
		return
	}
	p := &planner{in: in, clusterID: id, open: openFromCluster(c, nil, controller.CloudParts{Cluster: id, Access: access})}
	var read observedAccounts
	for _, a := range in.Accounts {
		if !slices.Contains(keys, cloud.AccountKey(a.Namespace, a.Name)) {
			continue
		}
		o, err := p.observe(ctx, a)
		if err != nil {
			unread(err)
			continue
		}
		p.in.importEntities(a, o)
		o.readACLs(ctx)
		read = append(read, o)
	}
	in.knowClouds(read)
}

// knowClouds hands on what was read of accounts.
func (in *inputs) knowClouds(read observedAccounts) {
	for _, o := range read {
		a := explain.ObservedAccount{Key: o.key, VMs: o.preview.Refs, ACLs: o.acls}
		for _, r := range o.regions {
			a.Snapshots = append(a.Snapshots, r.Snapshot)
		}
		in.Observed = append(in.Observed, a)
		for _, n := range o.notes {
			in.notes = append(in.notes, fmt.Sprintf("account %s: region %s: %s", o.key, n.Region, n.Message))
		}
	}
}

// foresee puts into the VirtualMachines what a controller would write into their statuses: how far
// each policy is enforced.
func (p *planner) foresee(read observedAccounts) error {
	store := watchstore.New(watchstore.Options{})
	store.Publish(convert.Delta(explain.Compute(&p.in.Objects).Delta))
	for _, o := range read {
		acct := controller.Describe(read, o.key)
		in, err := p.input(acct, o, store)
		if err != nil {
			return err
		}
		states := map[plan.VMRef]plan.VMStatus{}
		for _, vm := range plan.Compute(in, acct.Lowerer).VMs {
			states[vm.VM] = vm
		}
		for name, ref := range o.preview.Refs {
			st, observed := states[plan.VMRef{Region: ref.Region, ID: ref.VMID}]
			if !observed {
				continue
			}
			vm := p.in.virtualMachine(name)
			vm.Status.Region, vm.Status.CloudId = ref.Region, ref.VMID
			vm.Status.Mode, vm.Status.ModeReason = string(ref.Mode), ref.ModeReason
			vm.Status.Policies = foreseen(st)
		}
	}
	return nil
}

// virtualMachine returns the VirtualMachine of an entity; one that is not there yet is added.
func (in *inputs) virtualMachine(entity types.NamespacedName) *cloudv1alpha1.VirtualMachine {
	name := strings.TrimPrefix(entity.Name, cloudv1alpha1.EntityNamePrefix)
	i := slices.IndexFunc(in.VMs, func(vm *cloudv1alpha1.VirtualMachine) bool {
		return vm.Namespace == entity.Namespace && vm.Name == name
	})
	if i >= 0 {
		return in.VMs[i]
	}
	vm := &cloudv1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: entity.Namespace, Name: name}}
	in.VMs = append(in.VMs, vm)
	return vm
}

// foreseen says how far the policies of a VM are enforced.
func foreseen(vm plan.VMStatus) []cloudv1alpha1.VirtualMachinePolicyStatus {
	var out []cloudv1alpha1.VirtualMachinePolicyStatus
	for _, p := range vm.Policies {
		st := cloudv1alpha1.VirtualMachinePolicyStatus{
			Kind: string(p.Kind), Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID), Message: p.Message, Phase: cloudv1alpha1.PolicyPhaseRealizing,
		}
		switch {
		case vm.Mode != plan.Enforce:
			st.Phase = cloudv1alpha1.PolicyPhaseSuspended
		case p.Message != "":
			st.Phase = cloudv1alpha1.PolicyPhaseFailed
		case p.Realized:
			st.Phase = cloudv1alpha1.PolicyPhaseRealized
		}
		out = append(out, st)
	}
	return out
}
