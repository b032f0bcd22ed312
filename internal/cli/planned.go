package cli

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// opener makes the provider of an account.
type opener func(ctx context.Context, a *cloudv1alpha1.CloudProviderAccount) (cloud.Provider, error)

// openFromCluster takes the credentials of accounts from manifests, or else from the cluster.
func openFromCluster(c client.Reader, secrets []*corev1.Secret) opener {
	return func(ctx context.Context, a *cloudv1alpha1.CloudProviderAccount) (cloud.Provider, error) {
		ref := a.Spec.AWSConfig.SecretRef
		if ref == nil {
			return nil, fmt.Errorf("spec.awsConfig.secretRef is missing")
		}
		value, err := secretValue(ctx, c, secrets, *ref)
		if err != nil {
			return nil, fmt.Errorf("reading the credentials: %w", err)
		}
		return openAWS(inventory.AccountConfig{
			Account: cloud.AccountKey(a.Namespace, a.Name), Cloud: cloudv1alpha1.CloudProviderAWS,
			Regions: a.Spec.AWSConfig.Region, Endpoint: a.Spec.AWSConfig.Endpoint, Quotas: a.Spec.AWSConfig.Quotas,
			Secret: ref.Namespace + "/" + ref.Name, SecretKey: ref.Key, SecretValue: value,
		})
	}
}

// secretValue reads what a key of a Secret holds. In manifests it may be in stringData, as the API server takes it.
func secretValue(ctx context.Context, c client.Reader, secrets []*corev1.Secret, ref cloudv1alpha1.SecretReference) ([]byte, error) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if i := slices.IndexFunc(secrets, func(s *corev1.Secret) bool { return client.ObjectKeyFromObject(s) == key }); i >= 0 {
		if text, ok := secrets[i].StringData[ref.Key]; ok {
			return []byte(text), nil
		}
		return secrets[i].Data[ref.Key], nil
	}
	var secret corev1.Secret
	if err := c.Get(ctx, key, &secret); err != nil {
		return nil, err
	}
	return secret.Data[ref.Key], nil
}

// simulate brings a description of a cloud to life, so that it is read as a real one is. The returned function ends it.
func simulate(ctx context.Context, in *inputs, description string) (opener, func(), error) {
	state, report, err := estate.Load(description)
	if err != nil {
		return nil, nil, fmt.Errorf("--snapshot: %w", err)
	}
	for _, w := range report.Warnings {
		in.notes = append(in.notes, "snapshot: "+w.String())
	}
	server, err := sim.Start(ctx, sim.Options{State: state})
	if err != nil {
		return nil, nil, fmt.Errorf("--snapshot: %w", err)
	}
	open := func(_ context.Context, a *cloudv1alpha1.CloudProviderAccount) (cloud.Provider, error) {
		key := credentialFor(state, a.Name)
		return aws.New(aws.Config{
			Credential: cloudv1alpha1.AWSCredential{AccessKeyID: key.AccessKeyID, AccessKeySecret: key.Secret, SessionToken: key.SessionToken},
			Region:     a.Spec.AWSConfig.Region[0], Endpoint: server.URL(), Limits: limitsOf(a.Spec.AWSConfig.Quotas), UserAgent: "nephele-plan",
		})
	}
	return open, func() { _ = server.Close() }, nil
}

// credentialFor is a key of the described account whose alias or number is the name, or of the first one.
func credentialFor(state world.State, name string) world.Credential {
	for _, a := range state.Accounts {
		if a.Alias != name && a.ID != name {
			continue
		}
		if i := slices.IndexFunc(state.Credentials, func(c world.Credential) bool { return c.Account == a.ID }); i >= 0 {
			return state.Credentials[i]
		}
	}
	return state.Credentials[0]
}

// observedAccount is an account and what was read of it.
type observedAccount struct {
	key, enforcerKey string
	regions          []plan.Region
	notes            []plannedNote
}

// observe reads an account. A region that cannot be read is left alone, and told.
func (p *planner) observe(ctx context.Context, a *cloudv1alpha1.CloudProviderAccount) (*observedAccount, error) {
	o := &observedAccount{key: cloud.AccountKey(a.Namespace, a.Name), enforcerKey: cloud.EnforcerKey(a.Namespace, a.Name)}
	if a.Spec.AWSConfig == nil {
		return nil, fmt.Errorf("account %s: spec.awsConfig is missing: plans are made for AWS only", o.key)
	}
	if len(a.Spec.AWSConfig.Region) == 0 {
		return nil, fmt.Errorf("account %s: spec.awsConfig.region names no region", o.key)
	}
	provider, err := p.open(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", o.key, err)
	}
	for _, name := range a.Spec.AWSConfig.Region {
		scope := cloud.Scope{Account: o.key, Region: name}
		region := plan.Region{}
		if region.Snapshot, err = provider.Observe(ctx, scope); err == nil {
			region.Limits, err = provider.Limits(ctx, scope)
		}
		if err != nil {
			if len(a.Spec.AWSConfig.Region) == 1 {
				return nil, fmt.Errorf("account %s: region %s: %w", o.key, name, err)
			}
			o.notes = append(o.notes, plannedNote{Region: name, Message: "cannot be read and is left as it is: " + err.Error()})
			continue
		}
		o.regions = append(o.regions, region)
	}
	if len(o.regions) == 0 {
		return nil, fmt.Errorf("account %s: no region can be read: %s", o.key, o.notes[0].Message)
	}
	return o, nil
}

// importEntities adds what the selectors make of an account as it was read, as the inventory does. Entities of the account
// that no selector selects any more are left out, as the inventory removes them.
func (in *inputs) importEntities(a *cloudv1alpha1.CloudProviderAccount, o *observedAccount) {
	snapshots := make([]*cloud.Snapshot, len(o.regions))
	read := map[string]bool{}
	for i, r := range o.regions {
		snapshots[i] = r.Snapshot
		read[r.Snapshot.Region] = true
	}
	in.entities = slices.DeleteFunc(in.entities, func(x *v1alpha2.ExternalEntity) bool {
		return x.Spec.ExternalNode == o.enforcerKey && read[x.Labels[cloudv1alpha1.LabelCloudRegion]]
	})
	in.entities = append(in.entities, inventory.Preview(client.ObjectKeyFromObject(a), cloudv1alpha1.CloudProviderAWS, in.selectors, in.vms, snapshots)...)
}

// entities maps the ExternalEntities of the account to its VMs, as their labels tell.
func (o *observedAccount) entities(in *inputs) map[plan.EntityRef]plan.VMRef {
	out := map[plan.EntityRef]plan.VMRef{}
	for _, x := range in.entities {
		id, region := x.Labels[cloudv1alpha1.LabelCloudVMUID], x.Labels[cloudv1alpha1.LabelCloudRegion]
		if x.Spec.ExternalNode == o.enforcerKey && id != "" {
			out[plan.EntityRef{Namespace: x.Namespace, Name: x.Name}] = plan.VMRef{Region: region, ID: id}
		}
	}
	return out
}

// modes are the modes of the account's VMs as the controller last wrote them. VMs in mode plan are shown as if they were enforced, which is
// what the mode is for, and a note says so.
func (o *observedAccount) modes(vms []*cloudv1alpha1.VirtualMachine) (map[plan.VMRef]plan.Mode, []plannedNote) {
	modes, notes := map[plan.VMRef]plan.Mode{}, []plannedNote(nil)
	for _, vm := range vms {
		ref := plan.VMRef{Region: vm.Status.Region, ID: vm.Status.CloudId}
		if !slices.ContainsFunc(o.regions, func(r plan.Region) bool { return holdsVM(r.Snapshot, ref) }) {
			continue
		}
		switch cloudv1alpha1.EnforcementMode(vm.Status.Mode) {
		case cloudv1alpha1.ModePlan:
			notes = append(notes, plannedNote{ref.Region, ref.ID, "is in mode plan: what is shown for it is done only when it is enforced (" + vm.Status.ModeReason + ")"})
		case cloudv1alpha1.ModeReleased:
			modes[ref] = plan.Released
		case cloudv1alpha1.ModeBreakGlass:
			modes[ref] = plan.BreakGlass
		}
	}
	return modes, notes
}

func holdsVM(s *cloud.Snapshot, ref plan.VMRef) bool {
	return s.Region == ref.Region && slices.ContainsFunc(s.VMs, func(vm cloud.VM) bool { return vm.ID == ref.ID })
}

// overlay replaces and adds objects, as applying manifests to a cluster does.
func (in *inputs) overlay(over *inputs) {
	in.namespaces = overlaid(in.namespaces, over.namespaces)
	in.pods = overlaid(in.pods, over.pods)
	in.nodes = overlaid(in.nodes, over.nodes)
	in.services = overlaid(in.services, over.services)
	in.secrets = overlaid(in.secrets, over.secrets)
	in.entities = overlaid(in.entities, over.entities)
	in.externalNodes = overlaid(in.externalNodes, over.externalNodes)
	in.tiers = overlaid(in.tiers, over.tiers)
	in.groups = overlaid(in.groups, over.groups)
	in.clusterGroups = overlaid(in.clusterGroups, over.clusterGroups)
	in.policies = overlaid(in.policies, over.policies)
	in.clusterPolicies = overlaid(in.clusterPolicies, over.clusterPolicies)
	in.k8sPolicies = overlaid(in.k8sPolicies, over.k8sPolicies)
	in.adminPolicies = overlaid(in.adminPolicies, over.adminPolicies)
	in.baselinePolicies = overlaid(in.baselinePolicies, over.baselinePolicies)
	in.upstreamPolicies = overlaid(in.upstreamPolicies, over.upstreamPolicies)
	in.accounts = overlaid(in.accounts, over.accounts)
	in.selectors = overlaid(in.selectors, over.selectors)
	in.documents, in.refused, in.notes = over.documents, over.refused, over.notes
}

// overlaid takes over the uid of what it replaces, and says by a new generation that it is another version.
func overlaid[T client.Object](base, over []T) []T {
	out := slices.Clone(base)
	for _, o := range over {
		i := slices.IndexFunc(out, func(b T) bool { return client.ObjectKeyFromObject(b) == client.ObjectKeyFromObject(o) })
		if i < 0 {
			out = append(out, o)
			continue
		}
		o.SetUID(out[i].GetUID())
		o.SetGeneration(out[i].GetGeneration() + 1)
		out[i] = o
	}
	return out
}
