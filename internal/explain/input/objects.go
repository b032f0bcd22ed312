// Package input holds the objects that policies are computed from outside of a running controller,
// and what was read of cloud accounts.
//
// Objects are lists by kind: they are added, removed and overlaid by name, and a list that a caller
// has given is never changed. Nothing here decides anything. Objects may be read by many goroutines
// at once, as long as none changes them.
package input

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/policy"
)

// Objects is what policies are computed from, read from manifests or from a cluster.
type Objects struct {
	Namespaces []*corev1.Namespace
	Pods       []*corev1.Pod
	// TrimmedPods are Pods of which only what policies look at is known. They count as ready.
	TrimmedPods []*convert.TrimmedPod
	Nodes       []*corev1.Node
	Services    []*corev1.Service
	// Slices list the endpoints of a Service; without any, its selector does.
	Slices        []*discoveryv1.EndpointSlice
	Entities      []*v1alpha2.ExternalEntity
	ExternalNodes []*v1alpha1.ExternalNode
	// AgentInfos are what agents tell about themselves.
	AgentInfos      []*v1beta1.AntreaAgentInfo
	Leaving         Leaving
	Tiers           []*v1beta1.Tier
	Groups          []*v1beta1.Group
	ClusterGroups   []*v1beta1.ClusterGroup
	Policies        []*v1beta1.NetworkPolicy
	ClusterPolicies []*v1beta1.ClusterNetworkPolicy
	K8sPolicies     []*networkingv1.NetworkPolicy
	// The upstream kinds, of policy.networking.k8s.io.
	AdminPolicies    []*upstreamv1alpha1.AdminNetworkPolicy
	BaselinePolicies []*upstreamv1alpha1.BaselineAdminNetworkPolicy
	UpstreamPolicies []*upstreamv1alpha2.ClusterNetworkPolicy
	Accounts         []*cloudv1alpha1.CloudProviderAccount
	Selectors        []*cloudv1alpha1.CloudEntitySelector
	VMs              []*cloudv1alpha1.VirtualMachine
	NativeServices   []*cloudv1alpha1.CloudNativeService
	Interfaces       []*cloudv1alpha1.NetworkInterface

	// Observed are the cloud accounts that were read.
	Observed []Account
	// At is when it is asked, for releases that end by themselves; zero is before all ends.
	At time.Time

	// Remote are the workloads of other clusters of the set that peers select. OwnLabels are the
	// labels that Namespaces and Nodes of this cluster have in the set besides their own.
	Remote    []policy.Entity
	OwnLabels map[string]string

	// Partial tells that there may be more objects than these, as where manifests are read and not
	// a cluster.
	Partial bool
	// WithStaged computes staged policies, too, as if they were enforced. Otherwise they are left
	// out, as by the controller.
	WithStaged bool
}

// Leaving says with which addresses Pods leave the cluster.
type Leaving struct {
	Egresses []*v1beta1.Egress
	Pools    []*v1beta1.ExternalIPPool
}

// list is the objects of one kind.
type list interface {
	add(runtime.Object) bool
	remove(sample client.Object, namespace, name string) (is, was bool)
	overlay(over list)
}

// listOf is a field of Objects.
type listOf[T client.Object] struct{ of *[]T }

func (l listOf[T]) add(o runtime.Object) bool {
	t, is := o.(T)
	if is {
		*l.of = append(*l.of, t)
	}
	return is
}

// remove replaces the list by one without an object: the list itself may be somebody else's.
func (l listOf[T]) remove(sample client.Object, namespace, name string) (is, was bool) {
	if _, is = sample.(T); !is {
		return false, false
	}
	at := slices.IndexFunc(*l.of, func(o T) bool { return o.GetNamespace() == namespace && o.GetName() == name })
	if at >= 0 {
		*l.of = slices.Delete(slices.Clone(*l.of), at, at+1)
	}
	return true, at >= 0
}

// overlay takes over the uid of what it replaces, and says by a new generation that it is another
// version.
func (l listOf[T]) overlay(over list) {
	more := *over.(listOf[T]).of
	if len(more) == 0 {
		return
	}
	type key struct{ namespace, name string }
	out, at := slices.Clone(*l.of), make(map[key]int, len(*l.of))
	for i, o := range out {
		at[key{o.GetNamespace(), o.GetName()}] = i
	}
	for _, o := range more {
		k := key{o.GetNamespace(), o.GetName()}
		i, there := at[k]
		if !there {
			at[k] = len(out)
			out = append(out, o)
			continue
		}
		o.SetUID(out[i].GetUID())
		o.SetGeneration(out[i].GetGeneration() + 1)
		out[i] = o
	}
	*l.of = out
}

// lists are the objects by kind, but for TrimmedPods.
func (in *Objects) lists() []list {
	return []list{
		listOf[*corev1.Namespace]{&in.Namespaces}, listOf[*corev1.Pod]{&in.Pods}, listOf[*corev1.Node]{&in.Nodes}, listOf[*corev1.Service]{&in.Services},
		listOf[*discoveryv1.EndpointSlice]{&in.Slices}, listOf[*v1alpha2.ExternalEntity]{&in.Entities}, listOf[*v1alpha1.ExternalNode]{&in.ExternalNodes},
		listOf[*v1beta1.AntreaAgentInfo]{&in.AgentInfos}, listOf[*v1beta1.Egress]{&in.Leaving.Egresses}, listOf[*v1beta1.ExternalIPPool]{&in.Leaving.Pools},
		listOf[*v1beta1.Tier]{&in.Tiers}, listOf[*v1beta1.Group]{&in.Groups},
		listOf[*v1beta1.ClusterGroup]{&in.ClusterGroups}, listOf[*v1beta1.NetworkPolicy]{&in.Policies},
		listOf[*v1beta1.ClusterNetworkPolicy]{&in.ClusterPolicies}, listOf[*networkingv1.NetworkPolicy]{&in.K8sPolicies},
		listOf[*upstreamv1alpha1.AdminNetworkPolicy]{&in.AdminPolicies}, listOf[*upstreamv1alpha1.BaselineAdminNetworkPolicy]{&in.BaselinePolicies},
		listOf[*upstreamv1alpha2.ClusterNetworkPolicy]{&in.UpstreamPolicies}, listOf[*cloudv1alpha1.CloudProviderAccount]{&in.Accounts},
		listOf[*cloudv1alpha1.CloudEntitySelector]{&in.Selectors}, listOf[*cloudv1alpha1.VirtualMachine]{&in.VMs},
		listOf[*cloudv1alpha1.CloudNativeService]{&in.NativeServices}, listOf[*cloudv1alpha1.NetworkInterface]{&in.Interfaces},
	}
}

// Add takes objects of kinds that matter; others it leaves out.
func (in *Objects) Add(objects ...runtime.Object) {
	lists := in.lists()
	for _, o := range objects {
		for _, l := range lists {
			if l.add(o) {
				break
			}
		}
	}
}

// Remove takes an object of a kind away; false if there is none. The lists that were given are
// left as they are.
func (in *Objects) Remove(k kinds.Kind, namespace, name string) bool {
	sample := k.New()
	for _, l := range in.lists() {
		if is, was := l.remove(sample, namespace, name); is {
			return was
		}
	}
	return false
}

// Overlay puts objects over these, by their names. The lists that were given are left as they are.
func (in *Objects) Overlay(over *Objects) {
	more := over.lists()
	for i, l := range in.lists() {
		l.overlay(more[i])
	}
}

// WithOwnLabels returns labels of a Namespace or Node with those that it has in the set of clusters
// besides. The labels that are given are left as they are.
func (in *Objects) WithOwnLabels(labels map[string]string) map[string]string {
	if len(in.OwnLabels) == 0 {
		return labels
	}
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, in.OwnLabels)
	return out
}

// Snapshots returns the snapshots of all accounts that were read.
func (in *Objects) Snapshots() []*cloud.Snapshot {
	var out []*cloud.Snapshot
	for _, a := range in.Observed {
		out = append(out, a.Snapshots...)
	}
	return out
}
