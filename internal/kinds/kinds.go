// Package kinds is the one table of the stored kinds that Nephele reads, writes or shows.
//
// It owns which kinds there are and what each is for. All code that watches, lists, answers,
// records, serves or shows kinds takes them from here. What cannot be made from a table (rights,
// webhooks, pages of the documentation, switches over Go types) is held against it by tests: a kind
// that is added here and forgotten there is found, and so is the reverse.
//
// Kinds that are answered and not stored (controlplane.antrea.io, stats.antrea.io,
// analysis.nephele.io) are not here: they are not watched.
//
// Concurrency: every caller gets a table of its own.
package kinds

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	nephelev1alpha1 "github.com/nephele-io/nephele/api/nephele/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

// Use says what a kind is for. A kind may have several.
type Use uint32

const (
	// Computed: the policy controller computes from it.
	Computed Use = 1 << iota
	// Explained: answers about flows, rules and plans are made from it.
	Explained
	// OfClouds: it is about cloud accounts, which a process may leave to another one.
	OfClouds
	// Optional: its definition is not ours, and need not be installed.
	Optional
	// Withheld: a person who asks need not be allowed to read it, because former releases do not
	// serve it or former roles do not include it; then it counts as if there were none.
	Withheld
	// Manifest: it is read from files.
	Manifest
	// Planned: a person applies it, and it has a part in a plan.
	Planned
	// PlannedWhole: as Planned, for callers who may see everything: it decides about machines of
	// others.
	PlannedWhole
	// Admitted: webhooks judge it.
	Admitted
	// Shown: the console reads it.
	Shown
	// Edited: the console changes it where edits are allowed.
	Edited
	// BreaksGlass: it carries the annotation that releases VMs in an emergency.
	BreaksGlass
	// Bundled: it goes into the support bundle.
	Bundled
)

// Kind is one kind.
type Kind struct {
	schema.GroupVersionKind
	// Resource is its name in paths and rights.
	Resource   string
	Namespaced bool
	Uses       Use
	// Topic is what the console calls a watch of it; empty stands for Resource.
	Topic string
	// Revised begins the names of its revisions; empty if it has no history.
	Revised string
	// Policy is what it is called where policies are computed; empty for what is no policy.
	Policy v1beta2.NetworkPolicyType
	// New makes an empty object, NewList an empty list.
	New     func() client.Object
	NewList func() client.ObjectList
}

// Is reports whether it has all these uses.
func (k Kind) Is(u Use) bool { return k.Uses&u == u }

// GVR is the kind as paths name it.
func (k Kind) GVR() schema.GroupVersionResource { return k.GroupVersion().WithResource(k.Resource) }

// Of returns the kinds that have all these uses, in the order of the table.
func Of(u Use) []Kind {
	return slices.DeleteFunc(All(), func(k Kind) bool { return !k.Is(u) })
}

// Find returns the kind with a group and the name of a kind.
func Find(group, kind string) (Kind, bool) {
	return find(func(k Kind) bool { return k.Group == group && k.Kind == kind })
}

// FindResource returns the kind with a group and the name of a resource.
func FindResource(group, resource string) (Kind, bool) {
	return find(func(k Kind) bool { return k.Group == group && k.Resource == resource })
}

func find(is func(Kind) bool) (Kind, bool) {
	all := All()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	return Kind{}, false
}

// row makes a kind of its Go types.
func row[T, L any, O interface {
	*T
	client.Object
}, OL interface {
	*L
	client.ObjectList
}](gv schema.GroupVersion, kind, resource string, namespaced bool, uses Use) Kind {
	return Kind{
		GroupVersionKind: gv.WithKind(kind), Resource: resource, Namespaced: namespaced, Uses: uses,
		New: func() client.Object { return O(new(T)) }, NewList: func() client.ObjectList { return OL(new(L)) },
	}
}

// topic names the watch of the console.
func (k Kind) topic(name string) Kind { k.Topic = name; return k }

// revised gives a kind a history.
func (k Kind) revised(prefix string) Kind { k.Revised = prefix; return k }

// policy makes a kind one of policies.
func (k Kind) policy(computed v1beta2.NetworkPolicyType) Kind { k.Policy = computed; return k }

const (
	namespaced, clusterWide = true, false

	// fact is what policies are about, and machines.
	fact = Computed | Explained | Manifest | Shown
	// written is what authors of policies write.
	written = Computed | Explained | Manifest | Planned | Shown | Edited | Bundled
	// imported is what the inventory writes.
	imported = Explained | OfClouds | Manifest | PlannedWhole | Shown | Bundled
)

// All returns all kinds.
func All() []Kind {
	core, antrea, cloud, ours := corev1.SchemeGroupVersion, antreav1beta1.GroupVersion(), cloudv1.GroupVersion(), nephelev1alpha1.GroupVersion()
	admin, upstream := schema.GroupVersion(upstreamv1alpha1.GroupVersion), schema.GroupVersion(upstreamv1alpha2.GroupVersion)
	return []Kind{
		row[corev1.Namespace, corev1.NamespaceList](core, "Namespace", "namespaces", clusterWide, fact|Planned|Bundled),
		row[corev1.Pod, corev1.PodList](core, "Pod", "pods", namespaced, fact),
		row[corev1.Node, corev1.NodeList](core, "Node", "nodes", clusterWide, fact),
		row[corev1.Service, corev1.ServiceList](core, "Service", "services", namespaced, fact|Planned),
		// Without them, as in a cluster, where the controller may not read them, the selector of a
		// Service tells its endpoints.
		row[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](discoveryv1.SchemeGroupVersion, "EndpointSlice", "endpointslices", namespaced, Manifest),
		row[antreav1alpha2.ExternalEntity, antreav1alpha2.ExternalEntityList](antreav1alpha2.GroupVersion(), "ExternalEntity", "externalentities", namespaced,
			fact|Planned|Bundled),
		row[antreav1alpha1.ExternalNode, antreav1alpha1.ExternalNodeList](antreav1alpha1.GroupVersion(), "ExternalNode", "externalnodes", namespaced,
			fact|Planned|Bundled),
		row[antreav1beta1.Tier, antreav1beta1.TierList](antrea, "Tier", "tiers", clusterWide, written|Admitted).revised("tr"),
		row[antreav1beta1.Group, antreav1beta1.GroupList](antrea, "Group", "groups", namespaced, written|Admitted).revised("grp"),
		row[antreav1beta1.ClusterGroup, antreav1beta1.ClusterGroupList](antrea, "ClusterGroup", "clustergroups", clusterWide, written|Admitted).revised("cg"),
		row[antreav1beta1.NetworkPolicy, antreav1beta1.NetworkPolicyList](antrea, "NetworkPolicy", "networkpolicies", namespaced, written|Admitted).
			topic("annp").revised("annp").policy(v1beta2.AntreaNetworkPolicy),
		row[antreav1beta1.ClusterNetworkPolicy, antreav1beta1.ClusterNetworkPolicyList](antrea, "ClusterNetworkPolicy", "clusternetworkpolicies", clusterWide,
			written|Admitted).topic("acnp").revised("acnp").policy(v1beta2.AntreaClusterNetworkPolicy),
		// The API server itself judges these.
		row[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](networkingv1.SchemeGroupVersion, "NetworkPolicy", "networkpolicies", namespaced, written).
			revised("netpol").policy(v1beta2.K8sNetworkPolicy),
		row[upstreamv1alpha2.ClusterNetworkPolicy, upstreamv1alpha2.ClusterNetworkPolicyList](upstream, "ClusterNetworkPolicy", "clusternetworkpolicies", clusterWide,
			written|Admitted|Optional).topic("cnp").revised("cnp").policy(v1beta2.ClusterNetworkPolicy),
		row[upstreamv1alpha1.AdminNetworkPolicy, upstreamv1alpha1.AdminNetworkPolicyList](admin, "AdminNetworkPolicy", "adminnetworkpolicies", clusterWide,
			written|Admitted|Optional).topic("anp").revised("anp").policy(v1beta2.AdminNetworkPolicy),
		row[upstreamv1alpha1.BaselineAdminNetworkPolicy, upstreamv1alpha1.BaselineAdminNetworkPolicyList](admin, "BaselineAdminNetworkPolicy",
			"baselineadminnetworkpolicies", clusterWide, written|Admitted|Optional).topic("banp").revised("banp").policy(v1beta2.BaselineAdminNetworkPolicy),
		row[antreav1beta1.AntreaAgentInfo, antreav1beta1.AntreaAgentInfoList](antrea, "AntreaAgentInfo", "antreaagentinfos", clusterWide,
			Explained|Withheld|Shown|Bundled).topic("agentinfos"),
		row[antreav1beta1.AntreaControllerInfo, antreav1beta1.AntreaControllerInfoList](antrea, "AntreaControllerInfo", "antreacontrollerinfos", clusterWide,
			Shown|Bundled),
		row[antreav1alpha1.PacketCapture, antreav1alpha1.PacketCaptureList](antreav1alpha1.GroupVersion(), "PacketCapture", "packetcaptures", clusterWide, Bundled),
		row[antreav1alpha1.NodeLatencyMonitor, antreav1alpha1.NodeLatencyMonitorList](antreav1alpha1.GroupVersion(), "NodeLatencyMonitor", "nodelatencymonitors", clusterWide, Bundled),
		row[antreav1beta1.Egress, antreav1beta1.EgressList](antrea, "Egress", "egresses", clusterWide, Explained|Withheld|Bundled),
		row[antreav1beta1.ExternalIPPool, antreav1beta1.ExternalIPPoolList](antrea, "ExternalIPPool", "externalippools", clusterWide, Explained|Withheld|Bundled),
		row[antreav1beta1.Traceflow, antreav1beta1.TraceflowList](antrea, "Traceflow", "traceflows", clusterWide, Shown|Edited|Bundled),
		row[cloudv1.CloudProviderAccount, cloudv1.CloudProviderAccountList](cloud, "CloudProviderAccount", "cloudprovideraccounts", namespaced, imported).
			topic("accounts"),
		row[cloudv1.CloudEntitySelector, cloudv1.CloudEntitySelectorList](cloud, "CloudEntitySelector", "cloudentityselectors", namespaced, imported|BreaksGlass).
			topic("selectors"),
		row[cloudv1.VirtualMachine, cloudv1.VirtualMachineList](cloud, "VirtualMachine", "virtualmachines", namespaced, imported|BreaksGlass),
		row[cloudv1.CloudNativeService, cloudv1.CloudNativeServiceList](cloud, "CloudNativeService", "cloudnativeservices", namespaced, imported|BreaksGlass|Withheld),
		row[cloudv1.NetworkInterface, cloudv1.NetworkInterfaceList](cloud, "NetworkInterface", "networkinterfaces", namespaced, imported|BreaksGlass|Withheld),
		row[cloudv1.Vpc, cloudv1.VpcList](cloud, "Vpc", "vpcs", namespaced, OfClouds|Manifest|Shown|Bundled),
		row[nephelev1alpha1.PolicyRevision, nephelev1alpha1.PolicyRevisionList](ours, "PolicyRevision", "policyrevisions", namespaced, Shown|Bundled),
		row[nephelev1alpha1.ClusterPolicyRevision, nephelev1alpha1.ClusterPolicyRevisionList](ours, "ClusterPolicyRevision", "clusterpolicyrevisions", clusterWide,
			Shown|Bundled),
		row[setv1alpha1.Cluster, setv1alpha1.ClusterList](setv1alpha1.GroupVersion(), "Cluster", "clusters", clusterWide, Shown|Bundled),
		row[setv1alpha1.Membership, setv1alpha1.MembershipList](setv1alpha1.GroupVersion(), "Membership", "memberships", clusterWide, Bundled),
		row[setv1alpha1.RemoteGroup, setv1alpha1.RemoteGroupList](setv1alpha1.GroupVersion(), "RemoteGroup", "remotegroups", clusterWide, 0),
		row[setv1alpha1.ClusterRecord, setv1alpha1.ClusterRecordList](setv1alpha1.GroupVersion(), "ClusterRecord", "clusterrecords", clusterWide, 0),
	}
}
