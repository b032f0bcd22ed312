package explain

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/explain/placement"
	"github.com/nephele-io/nephele/internal/explain/redact"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// Computation is what objects mean: they and what the engine makes of them.
type Computation struct {
	Objects *input.Objects
	Delta   *policy.Delta
	Listing *policy.Listing
	// Ends are the entities that a flow may begin or end at.
	Ends map[policy.EntityRef]policy.Entity
	// Problems are the objects that are left out, or strange.
	Problems []Problem
	// agents are those on hosts that say what they are, by their enforcer keys.
	agents map[string]string
	// hostInfos are what our agents tell of hosts, by their enforcer keys.
	hostInfos map[string]hostInfo
	// clouds is nil if no account was read.
	clouds *placement.Places
	// The objects that stand for what is imported, by their names.
	vmObjects        map[types.NamespacedName]*cloudv1alpha1.VirtualMachine
	serviceObjects   map[types.NamespacedName]*cloudv1alpha1.CloudNativeService
	interfaceObjects map[types.NamespacedName]*cloudv1alpha1.NetworkInterface
	// view is nil for a caller that may see everything.
	view *redact.View
}

// Problem is what is wrong, or strange, with an object of an API group.
type Problem struct {
	Group, Kind, Namespace, Name string
	// Code is the status with which an API server would refuse the object; 0 if there are no
	// Errors.
	Code     int
	Errors   []policy.FieldError
	Warnings []policy.FieldError
	// Shadows is the ExternalEntity of an ExternalNode that was given besides it, and counts in its
	// place; empty for others.
	Shadows string
}

// Compute runs the engine over objects. What the engine refuses is among the problems, and left
// out.
func Compute(in *input.Objects) *Computation {
	c := &Computation{Objects: in, Ends: map[policy.EntityRef]policy.Entity{}, agents: agentsOf(in.AgentInfos),
		hostInfos: hostInfosOf(in.AgentInfos),
		vmObjects: byName(in.VMs), serviceObjects: byName(in.NativeServices), interfaceObjects: byName(in.Interfaces)}
	engine := compute.New(compute.Options{})
	for _, n := range in.Namespaces {
		space := convert.Namespace(n)
		space.Labels = in.WithOwnLabels(space.Labels)
		engine.PutNamespace(space)
	}
	c.putEntities(engine)
	for i := range in.Remote {
		engine.PutEntity(in.Remote[i])
	}
	c.clouds = placement.Of(in.Observed, c.Ends, false)
	for _, s := range in.Services {
		engine.PutService(convert.Service(s))
	}
	for _, t := range in.Tiers {
		engine.PutTier(convert.Tier(t))
	}
	for _, g := range in.Groups {
		engine.PutGroup(convert.Group(g))
	}
	for _, g := range in.ClusterGroups {
		engine.PutGroup(convert.ClusterGroup(g))
	}
	for _, p := range in.K8sPolicies {
		if in.LeavesOut(p) {
			continue
		}
		engine.PutPolicy(convert.KubernetesNetworkPolicy(p))
	}
	for _, p := range in.Policies {
		if in.LeavesOut(p) {
			continue
		}
		engine.PutPolicy(completed(in, convert.NetworkPolicy(p)))
	}
	for _, p := range in.ClusterPolicies {
		if in.LeavesOut(p) {
			continue
		}
		engine.PutPolicy(completed(in, convert.ClusterNetworkPolicy(p)))
	}
	for _, p := range in.AdminPolicies {
		engine.PutPolicy(convert.AdminNetworkPolicy(p))
	}
	for _, p := range in.BaselinePolicies {
		engine.PutPolicy(convert.BaselineAdminNetworkPolicy(p))
	}
	for _, p := range in.UpstreamPolicies {
		engine.PutPolicy(convert.UpstreamClusterNetworkPolicy(p))
	}
	c.Delta = engine.Commit()
	c.Listing = engine.Listing()
	for _, p := range c.Delta.Problems {
		c.Problems = append(c.Problems, problemOf(p))
	}
	return c
}

// completed is an Antrea policy with its defaults and with what is strange about it.
func completed(in *input.Objects, p policy.Policy) policy.Policy {
	admission.Default(&p)
	p.Warnings = append(admission.Warnings(&p), admission.Pitfalls(&p, p.Set || len(in.OwnLabels) > 0)...)
	if !p.Set {
		p.Warnings = append(p.Warnings, peers.CheckPeers(&p)...)
	}
	return peers.Localize(p)
}

func (c *Computation) putEntities(engine *compute.Engine) {
	put := func(kind string, e policy.Entity, errs []policy.FieldError) {
		if len(errs) > 0 {
			group := ""
			if kind == "ExternalEntity" {
				group = v1alpha2.GroupName
			}
			c.Problems = append(c.Problems, Problem{Group: group, Kind: kind, Namespace: e.Namespace, Name: e.Name, Code: 422, Errors: errs})
			return
		}
		c.Ends[e.EntityRef] = e
		engine.PutEntity(e)
	}
	for _, p := range c.Objects.Pods {
		e, errs := convert.Pod(p)
		put("Pod", e, errs)
	}
	for _, p := range c.Objects.TrimmedPods {
		e, errs := p.Entity()
		put("Pod", e, errs)
	}
	for _, n := range c.Objects.Nodes {
		e, errs := convert.Node(n)
		e.Labels = c.Objects.WithOwnLabels(e.Labels)
		put("Node", e, errs)
	}
	for _, x := range c.Objects.Entities {
		e, errs := convert.ExternalEntity(x)
		put("ExternalEntity", e, errs)
	}
	for _, n := range c.Objects.ExternalNodes {
		x := convert.EntityOfExternalNode(n)
		if x == nil {
			continue
		}
		e, errs := convert.ExternalEntity(x)
		if c.madeFor(n, e.EntityRef) {
			continue
		}
		if _, given := c.Ends[e.EntityRef]; given {
			c.Problems = append(c.Problems, Problem{Group: v1alpha2.GroupName, Kind: "ExternalNode", Namespace: n.Namespace, Name: n.Name, Shadows: e.Name})
			continue
		}
		put("ExternalEntity", e, errs)
	}
}

// madeFor reports whether an entity that is given is the one that a controller has made for an
// ExternalNode.
func (c *Computation) madeFor(n *v1alpha1.ExternalNode, ref policy.EntityRef) bool {
	return slices.ContainsFunc(c.Objects.Entities, func(x *v1alpha2.ExternalEntity) bool {
		return x.Namespace == ref.Namespace && x.Name == ref.Name && n.UID != "" &&
			slices.ContainsFunc(x.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "ExternalNode" && o.UID == n.UID })
	})
}

// problemOf is what the engine finds wrong, or strange, with a policy or group.
func problemOf(p policy.Problem) Problem {
	out := Problem{Group: v1beta1.GroupName, Namespace: p.Policy.Namespace, Name: p.Policy.Name, Errors: p.Errors, Warnings: p.Warnings}
	switch {
	case p.Policy.Kind == policy.KubernetesNetworkPolicy:
		out.Group, out.Kind = networkingv1.GroupName, "NetworkPolicy"
	case p.Policy.Kind == policy.AntreaNetworkPolicy:
		out.Kind = "NetworkPolicy"
	case p.Policy.Kind == policy.AntreaClusterNetworkPolicy:
		out.Kind = "ClusterNetworkPolicy"
	case p.Policy.Kind.Upstream():
		out.Group, out.Kind = upstreamv1alpha2.GroupName, string(p.Policy.Kind)
	case p.Group.Namespace != metav1.NamespaceNone:
		out.Kind, out.Namespace, out.Name = "Group", p.Group.Namespace, p.Group.Name
	default:
		out.Kind, out.Name = "ClusterGroup", p.Group.Name
	}
	if len(p.Errors) > 0 {
		out.Code = 400
	}
	return out
}
