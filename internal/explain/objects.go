package explain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/control/convert"
)

// Objects is what policies are computed from, read from manifests or from a cluster.
type Objects struct {
	Namespaces []*corev1.Namespace
	Pods       []*corev1.Pod
	// TrimmedPods are Pods of which only what policies look at is known. They count as ready.
	TrimmedPods []*convert.TrimmedPod
	Nodes       []*corev1.Node
	Services    []*corev1.Service
	// Slices say who is behind a Service; where there are none its selector does.
	Slices        []*discoveryv1.EndpointSlice
	Entities      []*v1alpha2.ExternalEntity
	ExternalNodes []*v1alpha1.ExternalNode
	// AgentInfos are what agents tell about themselves.
	AgentInfos      []*v1beta1.AntreaAgentInfo
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
	Observed []ObservedAccount
	// At is when it is asked, for releases that end by themselves; zero is before all ends.
	At time.Time

	// Partial tells that there may be more objects than these, as where manifests are read and not
	// a cluster.
	Partial bool
	// WithStaged computes staged policies, too, as if they were enforced. Otherwise they are left
	// out, as by the controller.
	WithStaged bool
}

// Add takes an object of a kind that matters; others it leaves out.
func (in *Objects) Add(object runtime.Object) {
	switch o := object.(type) {
	case *corev1.Namespace:
		in.Namespaces = append(in.Namespaces, o)
	case *corev1.Pod:
		in.Pods = append(in.Pods, o)
	case *corev1.Node:
		in.Nodes = append(in.Nodes, o)
	case *corev1.Service:
		in.Services = append(in.Services, o)
	case *discoveryv1.EndpointSlice:
		in.Slices = append(in.Slices, o)
	case *v1alpha2.ExternalEntity:
		in.Entities = append(in.Entities, o)
	case *v1alpha1.ExternalNode:
		in.ExternalNodes = append(in.ExternalNodes, o)
	case *v1beta1.AntreaAgentInfo:
		in.AgentInfos = append(in.AgentInfos, o)
	case *v1beta1.Tier:
		in.Tiers = append(in.Tiers, o)
	case *v1beta1.Group:
		in.Groups = append(in.Groups, o)
	case *v1beta1.ClusterGroup:
		in.ClusterGroups = append(in.ClusterGroups, o)
	case *v1beta1.NetworkPolicy:
		in.Policies = append(in.Policies, o)
	case *v1beta1.ClusterNetworkPolicy:
		in.ClusterPolicies = append(in.ClusterPolicies, o)
	case *networkingv1.NetworkPolicy:
		in.K8sPolicies = append(in.K8sPolicies, o)
	case *upstreamv1alpha1.AdminNetworkPolicy:
		in.AdminPolicies = append(in.AdminPolicies, o)
	case *upstreamv1alpha1.BaselineAdminNetworkPolicy:
		in.BaselinePolicies = append(in.BaselinePolicies, o)
	case *upstreamv1alpha2.ClusterNetworkPolicy:
		in.UpstreamPolicies = append(in.UpstreamPolicies, o)
	case *cloudv1alpha1.CloudProviderAccount:
		in.Accounts = append(in.Accounts, o)
	case *cloudv1alpha1.CloudEntitySelector:
		in.Selectors = append(in.Selectors, o)
	case *cloudv1alpha1.VirtualMachine:
		in.VMs = append(in.VMs, o)
	case *cloudv1alpha1.CloudNativeService:
		in.NativeServices = append(in.NativeServices, o)
	case *cloudv1alpha1.NetworkInterface:
		in.Interfaces = append(in.Interfaces, o)
	}
}
