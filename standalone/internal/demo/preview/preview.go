// Package preview computes what policies would change in a cloud account before they are applied, by the same steps as the controller
// and with the same code: policies and entities to computed objects (internal/policy), these and a fresh observation to a plan
// (internal/cloud/plan). It owns nothing, changes nothing and keeps nothing; Plan may be called concurrently.
package preview

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cli/manifest"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// Account names the account to plan for.
type Account struct{ Namespace, Name string }

// Plan computes what the groups and policies in the files, added to what is in the cluster, would change in the account.
func Plan(ctx context.Context, cfg *rest.Config, a Account, files []string) (*plan.Result, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	key := cloud.EnforcerKey(a.Namespace, a.Name)
	in := plan.Input{Account: cloud.AccountKey(a.Namespace, a.Name), Entities: map[plan.EntityRef]plan.VMRef{}}
	var system corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: "kube-system"}, &system); err != nil {
		return nil, fmt.Errorf("find out the id of the cluster: %w", err)
	}
	in.ClusterID = string(system.UID)
	engine := policy.New(policy.Options{})
	if err := feedCluster(ctx, c, engine, key, in.Entities); err != nil {
		return nil, err
	}
	if err := feedFiles(engine, files); err != nil {
		return nil, err
	}
	if err := compute(engine, key, &in); err != nil {
		return nil, err
	}
	if in.Regions, err = observe(ctx, c, a, in.Account); err != nil {
		return nil, err
	}
	return plan.Compute(in, lower.AWS{}), nil
}

func newClient(cfg *rest.Config) (client.Client, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, cloudv1.AddToScheme, v1beta1.AddToScheme, v1alpha2.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return client.New(cfg, client.Options{Scheme: s})
}

// feedCluster gives the engine what is in the cluster, and lists the entities of the account.
func feedCluster(ctx context.Context, c client.Client, e *policy.Engine, key string, entities map[plan.EntityRef]plan.VMRef) error {
	var namespaces corev1.NamespaceList
	var tiers v1beta1.TierList
	var groups v1beta1.GroupList
	var clusterGroups v1beta1.ClusterGroupList
	var policies v1beta1.NetworkPolicyList
	var clusterPolicies v1beta1.ClusterNetworkPolicyList
	var external v1alpha2.ExternalEntityList
	for _, l := range []client.ObjectList{&namespaces, &tiers, &groups, &clusterGroups, &policies, &clusterPolicies, &external} {
		if err := c.List(ctx, l); err != nil {
			return fmt.Errorf("read the cluster: %w", err)
		}
	}
	for i := range namespaces.Items {
		e.PutNamespace(convert.Namespace(&namespaces.Items[i]))
	}
	for i := range tiers.Items {
		e.PutTier(convert.Tier(&tiers.Items[i]))
	}
	for i := range groups.Items {
		e.PutGroup(convert.Group(&groups.Items[i]))
	}
	for i := range clusterGroups.Items {
		e.PutGroup(convert.ClusterGroup(&clusterGroups.Items[i]))
	}
	for i := range policies.Items {
		put(e, convert.NetworkPolicy(&policies.Items[i]))
	}
	for i := range clusterPolicies.Items {
		put(e, convert.ClusterNetworkPolicy(&clusterPolicies.Items[i]))
	}
	for i := range external.Items {
		x := &external.Items[i]
		entity, bad := convert.ExternalEntity(x)
		if len(bad) > 0 {
			return fmt.Errorf("ExternalEntity %s/%s: %s", x.Namespace, x.Name, policy.JoinErrors(bad))
		}
		e.PutEntity(entity)
		if x.Spec.ExternalNode == key {
			ref := plan.EntityRef{Namespace: x.Namespace, Name: x.Name}
			entities[ref] = plan.VMRef{Region: x.Labels[cloudv1.LabelCloudRegion], ID: x.Labels[cloudv1.LabelCloudVMUID]}
		}
	}
	return nil
}

// feedFiles gives the engine the groups and policies of manifests.
func feedFiles(e *policy.Engine, files []string) error {
	set, err := manifest.Load(files, strings.NewReader(""))
	if err != nil {
		return err
	}
	for _, d := range set.Documents {
		// Nothing is stored, so nothing has an identity yet; it need only be unique among what the engine is given.
		d.Object.SetUID(types.UID("preview of " + d.Name()))
		switch o := d.Object.(type) {
		case *v1beta1.ClusterGroup:
			e.PutGroup(convert.ClusterGroup(o))
		case *v1beta1.Group:
			e.PutGroup(convert.Group(o))
		case *v1beta1.ClusterNetworkPolicy:
			put(e, convert.ClusterNetworkPolicy(o))
		case *v1beta1.NetworkPolicy:
			put(e, convert.NetworkPolicy(o))
		default:
			return fmt.Errorf("%s: %s is neither a group nor a policy", d.Position, d.Name())
		}
	}
	return nil
}

// put gives the engine a policy, completed as the API server does it.
func put(e *policy.Engine, p policy.Policy) {
	admission.Default(&p)
	e.PutPolicy(p)
}

// compute runs the engine and fills in the computed objects that concern the key.
func compute(e *policy.Engine, key string, in *plan.Input) error {
	delta := e.Commit()
	for _, p := range delta.Problems {
		if len(p.Errors) > 0 {
			return fmt.Errorf("policy %s: %s", p.Policy.Name, policy.JoinErrors(p.Errors))
		}
	}
	store := watchstore.New(watchstore.Options{})
	store.Publish(convert.Delta(delta))
	for _, r := range watchstore.Resources() {
		objects, _, err := store.List(r, key)
		if err != nil {
			return err
		}
		for _, o := range objects {
			switch o := o.(type) {
			case *v1beta2.NetworkPolicy:
				in.Policies = append(in.Policies, o)
			case *v1beta2.AddressGroup:
				in.AddressGroups = append(in.AddressGroups, o)
			case *v1beta2.AppliedToGroup:
				in.AppliedToGroups = append(in.AppliedToGroups, o)
			}
		}
	}
	return nil
}

// observe reads the regions of the account from the cloud.
func observe(ctx context.Context, c client.Client, a Account, name string) ([]plan.Region, error) {
	var cpa cloudv1.CloudProviderAccount
	if err := c.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Name}, &cpa); err != nil {
		return nil, err
	}
	config := cpa.Spec.AWSConfig
	if config == nil || len(config.Region) == 0 || config.SecretRef == nil {
		return nil, fmt.Errorf("account %s is not an AWS account with regions and a Secret", name)
	}
	var secret corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: config.SecretRef.Namespace, Name: config.SecretRef.Name}, &secret); err != nil {
		return nil, err
	}
	credential, err := aws.ParseCredential(secret.Namespace+"/"+secret.Name, config.SecretRef.Key, secret.Data[config.SecretRef.Key])
	if err != nil {
		return nil, err
	}
	provider, err := aws.New(aws.Config{Credential: credential, Region: config.Region[0], Endpoint: config.Endpoint, UserAgent: "nephele"})
	if err != nil {
		return nil, err
	}
	var out []plan.Region
	for _, region := range config.Region {
		scope := cloud.Scope{Account: name, Region: region}
		snapshot, err := provider.Observe(ctx, scope)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", region, err)
		}
		limits, err := provider.Limits(ctx, scope)
		if err != nil {
			return nil, fmt.Errorf("read the quotas of %s: %w", region, err)
		}
		out = append(out, plan.Region{Snapshot: snapshot, Limits: limits})
	}
	return out, nil
}
