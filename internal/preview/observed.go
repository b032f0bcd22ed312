package preview

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/explain/input"
)

// Reader is what is read of an account; see cloud.Provider.
type Reader interface {
	Observe(ctx context.Context, s cloud.Scope) (*cloud.Snapshot, error)
	Limits(ctx context.Context, s cloud.Scope) (cloud.Limits, error)
}

// Opener makes the reader of an account.
type Opener func(ctx context.Context, a *cloudv1alpha1.CloudProviderAccount) (Reader, error)

// ObservedAccount is an account and what was read of it.
type ObservedAccount struct {
	Key, EnforcerKey string
	Deleting         bool
	Regions          []plan.Region
	notes            []analysis.PlanNote
	// unread tells the same by region.
	unread []analysis.UnreadRegion
	// Missing says which regions could not be read, and why.
	Missing []error
	// provider is what it was read by.
	provider Reader
	// acls are the network ACLs of its subnets, if they were asked for.
	acls []cloud.NetworkACL
	// Preview is what the inventory would know of it.
	Preview selection.Previewed
}

// snapshot returns what was read of a region; nil if nothing was.
func (o *ObservedAccount) snapshot(region string) *cloud.Snapshot {
	for _, r := range o.Regions {
		if r.Snapshot.Region == region {
			return r.Snapshot
		}
	}
	return nil
}

// vmOf names the VM of an interface; "" if it has none.
func (o *ObservedAccount) vmOf(region, networkInterface string) string {
	if s := o.snapshot(region); s != nil {
		for i := range s.Interfaces {
			if s.Interfaces[i].ID == networkInterface {
				return s.Interfaces[i].VMID
			}
		}
	}
	return ""
}

// ObservedAccounts are a knowledge of the accounts that were read.
type ObservedAccounts []*ObservedAccount

func (o ObservedAccounts) find(key string) *ObservedAccount {
	i := slices.IndexFunc(o, func(a *ObservedAccount) bool { return a.Key == key })
	if i < 0 {
		return &ObservedAccount{Key: key}
	}
	return o[i]
}

// Keys implements knowledge.
func (o ObservedAccounts) Keys() []string {
	keys := make([]string, len(o))
	for i, a := range o {
		keys[i] = a.Key
	}
	return keys
}

// Regions implements knowledge: the regions that were read.
func (o ObservedAccounts) Regions(key string) []string {
	var names []string
	for _, r := range o.find(key).Regions {
		names = append(names, r.Snapshot.Region)
	}
	return names
}

// Latest implements knowledge.
func (o ObservedAccounts) Latest(key, region string) (*cloud.Snapshot, error) {
	return o.find(key).snapshot(region), nil
}

// Services implements knowledge.
func (o ObservedAccounts) Services(key string) map[types.NamespacedName]selection.ServiceRef {
	return o.find(key).Preview.Services
}

// Entities implements knowledge.
func (o ObservedAccounts) Entities(key string) map[types.NamespacedName]selection.VMRef {
	return o.find(key).Preview.Refs
}

// Settings implements knowledge.
func (o ObservedAccounts) Settings(key string) accountspec.Settings {
	return o.find(key).Preview.Settings
}

// Deleting implements knowledge.
func (o ObservedAccounts) Deleting(key string) bool { return o.find(key).Deleting }

// Observe reads an account. A region that cannot be read is left alone, and told.
func (p *Planner) Observe(ctx context.Context, a *cloudv1alpha1.CloudProviderAccount) (*ObservedAccount, error) {
	o := &ObservedAccount{Key: cloud.AccountKey(a.Namespace, a.Name), EnforcerKey: cloud.EnforcerKey(a.Namespace, a.Name), Deleting: a.DeletionTimestamp != nil}
	config, _ := accountspec.ConfigOf(a)
	if _, supported := p.Lowerers(config.Cloud); !supported {
		return nil, fmt.Errorf("account %s: neither spec.awsConfig nor spec.azureConfig is set", o.Key)
	}
	if len(config.Regions) == 0 {
		return nil, fmt.Errorf("account %s: it names no region", o.Key)
	}
	provider, err := p.Open(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", o.Key, err)
	}
	o.provider = provider
	if shown, can := provider.(cloud.Provider); can && p.In != nil {
		provider = selection.Showing(shown, selection.SelectorsOf(a, p.In.surroundings()))
	}
	for _, name := range config.Regions {
		scope := cloud.Scope{Account: o.Key, Region: name}
		region := plan.Region{}
		if region.Snapshot, err = provider.Observe(ctx, scope); err == nil {
			region.Limits, err = provider.Limits(ctx, scope)
		}
		if err != nil {
			if len(config.Regions) == 1 {
				return nil, fmt.Errorf("account %s: region %s: %w", o.Key, name, err)
			}
			o.notes = append(o.notes, analysis.PlanNote{Region: name, Message: "cannot be read and is left as it is: " + err.Error()})
			o.unread = append(o.unread, analysis.UnreadRegion{Region: name, Message: err.Error()})
			o.Missing = append(o.Missing, fmt.Errorf("account %s: region %s: %w", o.Key, name, err))
			continue
		}
		o.Regions = append(o.Regions, region)
	}
	if len(o.Regions) == 0 {
		return nil, fmt.Errorf("account %s: no region can be read: %s", o.Key, o.notes[0].Message)
	}
	return o, nil
}

// ImportEntities adds what the selectors make of an account as it was read, as the inventory does.
// Entities of the account that no selector selects any more, or none that the account lets select,
// are left out, as the inventory removes them. The ports that others have stay where the
// cloud tells none.
func (in *Inputs) ImportEntities(a *cloudv1alpha1.CloudProviderAccount, o *ObservedAccount) {
	snapshots := make([]*cloud.Snapshot, len(o.Regions))
	for i, r := range o.Regions {
		snapshots[i] = r.Snapshot
	}
	config, _ := accountspec.ConfigOf(a)
	o.Preview = selection.Preview(a, config.Cloud, in.surroundings(), snapshots)
	ports := map[client.ObjectKey][]v1alpha2.NamedPort{}
	for _, x := range in.Objects.Entities {
		ports[client.ObjectKeyFromObject(x)] = x.Spec.Ports
	}
	for _, x := range o.Preview.Entities {
		if len(x.Spec.Ports) == 0 {
			x.Spec.Ports = ports[client.ObjectKeyFromObject(x)]
		}
	}
	in.Objects.Entities = slices.DeleteFunc(slices.Clone(in.Objects.Entities), func(x *v1alpha2.ExternalEntity) bool {
		_, again := o.Preview.Refs[client.ObjectKeyFromObject(x)]
		_, service := o.Preview.Services[client.ObjectKeyFromObject(x)]
		return again || service || x.Spec.ExternalNode == o.EnforcerKey && (o.snapshot(x.Labels[cloudv1alpha1.LabelCloudRegion]) != nil || !o.Preview.Selecting[x.Namespace])
	})
	in.Objects.Entities = append(in.Objects.Entities, o.Preview.Entities...)
	in.Objects.Overlay(&input.Objects{Groups: o.Preview.Groups})
}

// surroundings are the objects that decide what is imported of an account.
func (in *Inputs) surroundings() selection.Surroundings {
	o := &in.Objects
	return selection.Surroundings{Selectors: o.Selectors, VMs: o.VMs, Services: o.NativeServices, Interfaces: o.Interfaces, Namespaces: o.Namespaces, At: o.At}
}

// Overlay replaces and adds objects, as applying manifests to a cluster does.
func (in *Inputs) Overlay(over *Inputs) {
	in.Objects.Overlay(&over.Objects)
	in.Secrets = append(slices.Clone(over.Secrets), in.Secrets...) // the first of a name counts
	in.Documents, in.Refused, in.Notes = over.Documents, over.Refused, over.Notes
}
