package cli

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/controller"
)

// opener makes the provider of an account.
type opener func(ctx context.Context, a *cloudv1alpha1.CloudProviderAccount) (cloud.Provider, error)

// openFromCluster takes the credentials of accounts from manifests, or else from the cluster.
func openFromCluster(c client.Reader, secrets []*corev1.Secret, parts controller.CloudParts) opener {
	return func(ctx context.Context, a *cloudv1alpha1.CloudProviderAccount) (cloud.Provider, error) {
		config, ref := inventory.ConfigOf(a)
		if ref == nil {
			return nil, fmt.Errorf("secretRef is missing")
		}
		value, err := secretValue(ctx, c, secrets, *ref)
		if err != nil {
			return nil, fmt.Errorf("reading the credentials: %w", err)
		}
		row, supported := controller.CloudOf(config.Cloud)
		if !supported {
			return nil, fmt.Errorf("accounts of %s are not supported", config.Cloud)
		}
		open, err := row.Open(ctx, parts)
		if err != nil {
			return nil, err
		}
		config.Owner, config.Queues, config.SecretValue = "", nil, value
		return open(config)
	}
}

// secretValue reads what a key of a Secret holds. In manifests it may be in stringData, as the API
// server takes it.
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

// observedAccount is an account and what was read of it.
type observedAccount struct {
	key, enforcerKey string
	deleting         bool
	regions          []plan.Region
	notes            []plannedNote
	// missing says which regions could not be read, and why.
	missing []error
	// provider is what it was read by.
	provider cloud.Provider
	// acls are the network ACLs of its subnets, if they were asked for.
	acls []cloud.NetworkACL
	// preview is what the inventory would know of it.
	preview inventory.Previewed
}

// snapshot returns what was read of a region; nil if nothing was.
func (o *observedAccount) snapshot(region string) *cloud.Snapshot {
	for _, r := range o.regions {
		if r.Snapshot.Region == region {
			return r.Snapshot
		}
	}
	return nil
}

// vmOf names the VM of an interface; "" if it has none.
func (o *observedAccount) vmOf(region, networkInterface string) string {
	if s := o.snapshot(region); s != nil {
		for i := range s.Interfaces {
			if s.Interfaces[i].ID == networkInterface {
				return s.Interfaces[i].VMID
			}
		}
	}
	return ""
}

// observedAccounts are a knowledge of the accounts that were read.
type observedAccounts []*observedAccount

func (o observedAccounts) find(key string) *observedAccount {
	i := slices.IndexFunc(o, func(a *observedAccount) bool { return a.key == key })
	if i < 0 {
		return &observedAccount{key: key}
	}
	return o[i]
}

// Keys implements knowledge.
func (o observedAccounts) Keys() []string {
	keys := make([]string, len(o))
	for i, a := range o {
		keys[i] = a.key
	}
	return keys
}

// Regions implements knowledge: the regions that were read.
func (o observedAccounts) Regions(key string) []string {
	var names []string
	for _, r := range o.find(key).regions {
		names = append(names, r.Snapshot.Region)
	}
	return names
}

// Latest implements knowledge.
func (o observedAccounts) Latest(key, region string) (*cloud.Snapshot, error) {
	return o.find(key).snapshot(region), nil
}

// Entities implements knowledge.
func (o observedAccounts) Entities(key string) map[types.NamespacedName]inventory.VMRef {
	return o.find(key).preview.Refs
}

// Settings implements knowledge.
func (o observedAccounts) Settings(key string) inventory.Settings {
	return o.find(key).preview.Settings
}

// Deleting implements knowledge.
func (o observedAccounts) Deleting(key string) bool { return o.find(key).deleting }

// tighten tells from the annotations of policies of which of them as much is to be enforced as
// fits.
func (in *inputs) tighten(ref v1beta2.NetworkPolicyReference) bool {
	named := func(o client.Object) bool { return o.GetNamespace() == ref.Namespace && o.GetName() == ref.Name }
	switch ref.Type {
	case v1beta2.AntreaNetworkPolicy:
		return slices.ContainsFunc(in.Policies, func(p *antreav1beta1.NetworkPolicy) bool { return named(p) && controller.AsksToTighten(p) })
	case v1beta2.AntreaClusterNetworkPolicy:
		return slices.ContainsFunc(in.ClusterPolicies, func(p *antreav1beta1.ClusterNetworkPolicy) bool { return named(p) && controller.AsksToTighten(p) })
	}
	return false
}

// observe reads an account. A region that cannot be read is left alone, and told.
func (p *planner) observe(ctx context.Context, a *cloudv1alpha1.CloudProviderAccount) (*observedAccount, error) {
	o := &observedAccount{key: cloud.AccountKey(a.Namespace, a.Name), enforcerKey: cloud.EnforcerKey(a.Namespace, a.Name), deleting: a.DeletionTimestamp != nil}
	config, _ := inventory.ConfigOf(a)
	if _, supported := controller.CloudOf(config.Cloud); !supported {
		return nil, fmt.Errorf("account %s: neither spec.awsConfig nor spec.azureConfig is set", o.key)
	}
	if len(config.Regions) == 0 {
		return nil, fmt.Errorf("account %s: it names no region", o.key)
	}
	provider, err := p.open(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", o.key, err)
	}
	o.provider = provider
	for _, name := range config.Regions {
		scope := cloud.Scope{Account: o.key, Region: name}
		region := plan.Region{}
		if region.Snapshot, err = provider.Observe(ctx, scope); err == nil {
			region.Limits, err = provider.Limits(ctx, scope)
		}
		if err != nil {
			if len(config.Regions) == 1 {
				return nil, fmt.Errorf("account %s: region %s: %w", o.key, name, err)
			}
			o.notes = append(o.notes, plannedNote{Region: name, Message: "cannot be read and is left as it is: " + err.Error()})
			o.missing = append(o.missing, fmt.Errorf("account %s: region %s: %w", o.key, name, err))
			continue
		}
		o.regions = append(o.regions, region)
	}
	if len(o.regions) == 0 {
		return nil, fmt.Errorf("account %s: no region can be read: %s", o.key, o.notes[0].Message)
	}
	return o, nil
}

// importEntities adds what the selectors make of an account as it was read, as the inventory does.
// Entities of the account that no selector selects any more, or none that the account lets select,
// are left out, as the inventory removes them. The ports that others have stay: the cloud knows
// none.
func (in *inputs) importEntities(a *cloudv1alpha1.CloudProviderAccount, o *observedAccount) {
	snapshots := make([]*cloud.Snapshot, len(o.regions))
	for i, r := range o.regions {
		snapshots[i] = r.Snapshot
	}
	config, _ := inventory.ConfigOf(a)
	o.preview = inventory.Preview(a, config.Cloud, in.surroundings(), snapshots)
	ports := map[client.ObjectKey][]v1alpha2.NamedPort{}
	for _, x := range in.Entities {
		ports[client.ObjectKeyFromObject(x)] = x.Spec.Ports
	}
	for _, x := range o.preview.Entities {
		x.Spec.Ports = ports[client.ObjectKeyFromObject(x)]
	}
	in.Entities = slices.DeleteFunc(in.Entities, func(x *v1alpha2.ExternalEntity) bool {
		_, again := o.preview.Refs[client.ObjectKeyFromObject(x)]
		return again || x.Spec.ExternalNode == o.enforcerKey && (o.snapshot(x.Labels[cloudv1alpha1.LabelCloudRegion]) != nil || !o.preview.Selecting[x.Namespace])
	})
	in.Entities = append(in.Entities, o.preview.Entities...)
}

// surroundings are the objects that decide what is imported of an account.
func (in *inputs) surroundings() inventory.Surroundings {
	return inventory.Surroundings{Selectors: in.Selectors, VMs: in.VMs, Namespaces: in.Namespaces}
}

// overlay replaces and adds objects, as applying manifests to a cluster does.
func (in *inputs) overlay(over *inputs) {
	in.Namespaces = overlaid(in.Namespaces, over.Namespaces)
	in.Pods = overlaid(in.Pods, over.Pods)
	in.Nodes = overlaid(in.Nodes, over.Nodes)
	in.Services = overlaid(in.Services, over.Services)
	in.secrets = overlaid(in.secrets, over.secrets)
	in.Entities = overlaid(in.Entities, over.Entities)
	in.ExternalNodes = overlaid(in.ExternalNodes, over.ExternalNodes)
	in.Tiers = overlaid(in.Tiers, over.Tiers)
	in.Groups = overlaid(in.Groups, over.Groups)
	in.ClusterGroups = overlaid(in.ClusterGroups, over.ClusterGroups)
	in.Policies = overlaid(in.Policies, over.Policies)
	in.ClusterPolicies = overlaid(in.ClusterPolicies, over.ClusterPolicies)
	in.K8sPolicies = overlaid(in.K8sPolicies, over.K8sPolicies)
	in.AdminPolicies = overlaid(in.AdminPolicies, over.AdminPolicies)
	in.BaselinePolicies = overlaid(in.BaselinePolicies, over.BaselinePolicies)
	in.UpstreamPolicies = overlaid(in.UpstreamPolicies, over.UpstreamPolicies)
	in.Accounts = overlaid(in.Accounts, over.Accounts)
	in.Selectors = overlaid(in.Selectors, over.Selectors)
	in.VMs = overlaid(in.VMs, over.VMs)
	in.documents, in.refused, in.notes = over.documents, over.refused, over.notes
}

// overlaid takes over the uid of what it replaces, and says by a new generation that it is another
// version.
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
