package preview

import (
	"context"
	"fmt"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
)

// ReadAll reads all accounts and computes what stands there.
func (p *Planner) ReadAll(ctx context.Context) (*Computation, error) {
	var read ObservedAccounts
	for _, a := range p.In.Objects.Accounts {
		o, err := p.Observe(ctx, a)
		if err != nil {
			return nil, err
		}
		p.In.ImportEntities(a, o)
		o.ReadACLs(ctx)
		read = append(read, o)
	}
	p.In.KnowClouds(read)
	p.In.NoteUnread(read)
	if err := p.foresee(read); err != nil {
		return nil, err
	}
	return Compute(p.In), nil
}

// Recompute computes again, with what has come besides.
func Recompute(in *Inputs) *Computation { return &Computation{explain.Compute(&in.Objects), in} }

// ReadACLs reads the network ACLs of an account. They need a right of their own that nothing else
// needs: what cannot be read is noted.
func (o *ObservedAccount) ReadACLs(ctx context.Context) {
	reader, able := o.provider.(cloud.ACLReader)
	if !able {
		return
	}
	for _, r := range o.Regions {
		acls, err := reader.NetworkACLs(ctx, r.Snapshot.Scope)
		if err != nil {
			o.notes = append(o.notes, analysis.PlanNote{Region: r.Snapshot.Region, Message: "network ACLs are not read, and one may stop a packet that is allowed here: " + err.Error()})
			continue
		}
		o.acls = append(o.acls, acls...)
	}
}

// KnowClouds hands on what was read of accounts, in the place of what was known of them.
func (in *Inputs) KnowClouds(read ObservedAccounts) {
	known := slices.Clone(in.Objects.Observed)
	for _, o := range read {
		a := input.Account{Key: o.Key, VMs: o.Preview.Refs, Services: o.Preview.Services, ACLs: o.acls}
		for _, r := range o.Regions {
			a.Snapshots = append(a.Snapshots, r.Snapshot)
		}
		if i := slices.IndexFunc(known, func(k input.Account) bool { return k.Key == o.Key }); i >= 0 {
			known[i] = a
		} else {
			known = append(known, a)
		}
	}
	in.Objects.Observed = known
}

// NoteUnread says what could not be read of accounts.
func (in *Inputs) NoteUnread(read ObservedAccounts) {
	for _, o := range read {
		for _, n := range o.notes {
			in.Notes = append(in.Notes, fmt.Sprintf("account %s: region %s: %s", o.Key, n.Region, n.Message))
		}
	}
}

// foresee puts into the VirtualMachines what a controller would write into their statuses: how far
// each policy is enforced.
func (p *Planner) foresee(read ObservedAccounts) error {
	store := watchstore.New(watchstore.Options{})
	store.Publish(convert.Delta(explain.Compute(&p.In.Objects).Delta))
	for _, o := range read {
		acct := Describe(read, o.Key, p.Lowerers)
		in, err := p.Input(acct, o, store)
		if err != nil {
			return err
		}
		states := map[plan.VMRef]plan.VMStatus{}
		for _, vm := range plan.Compute(in, acct.Lowerer).VMs {
			states[vm.VM] = vm
		}
		for name, ref := range o.Preview.Refs {
			st, observed := states[plan.VMRef{Region: ref.Region, ID: ref.VMID}]
			if !observed {
				continue
			}
			vm := p.In.virtualMachine(name)
			vm.Status.Region, vm.Status.CloudId = ref.Region, ref.VMID
			vm.Status.Mode, vm.Status.ModeReason = string(ref.Mode), ref.ModeReason
			vm.Status.Policies = foreseen(st)
		}
	}
	return nil
}

// virtualMachine returns the VirtualMachine of an entity; one that is not there yet is added.
func (in *Inputs) virtualMachine(entity types.NamespacedName) *cloudv1alpha1.VirtualMachine {
	name := strings.TrimPrefix(entity.Name, cloudv1alpha1.EntityNamePrefix)
	i := slices.IndexFunc(in.Objects.VMs, func(vm *cloudv1alpha1.VirtualMachine) bool {
		return vm.Namespace == entity.Namespace && vm.Name == name
	})
	if i >= 0 {
		return in.Objects.VMs[i]
	}
	vm := &cloudv1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: entity.Namespace, Name: name}}
	in.Objects.VMs = append(in.Objects.VMs, vm)
	return vm
}

// foreseen says how far the policies of a VM are enforced.
func foreseen(vm plan.VMStatus) []cloudv1alpha1.AppliedPolicy {
	var out []cloudv1alpha1.AppliedPolicy
	for _, p := range vm.Policies {
		st := cloudv1alpha1.AppliedPolicy{
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
