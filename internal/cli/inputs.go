package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/cli/manifest"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// inputs is what policies are computed from, read from manifests or from a cluster.
type inputs struct {
	namespaces []*corev1.Namespace
	pods       []*corev1.Pod
	nodes      []*corev1.Node
	services   []*corev1.Service
	// slices say who is behind a Service; where there are none its selector does.
	slices []*discoveryv1.EndpointSlice
	// secrets are those of manifests only; those of a cluster are read one by one, where an account needs one.
	secrets         []*corev1.Secret
	entities        []*v1alpha2.ExternalEntity
	externalNodes   []*v1alpha1.ExternalNode
	tiers           []*v1beta1.Tier
	groups          []*v1beta1.Group
	clusterGroups   []*v1beta1.ClusterGroup
	policies        []*v1beta1.NetworkPolicy
	clusterPolicies []*v1beta1.ClusterNetworkPolicy
	k8sPolicies     []*networkingv1.NetworkPolicy
	// The upstream kinds, of policy.networking.k8s.io.
	adminPolicies    []*upstreamv1alpha1.AdminNetworkPolicy
	baselinePolicies []*upstreamv1alpha1.BaselineAdminNetworkPolicy
	upstreamPolicies []*upstreamv1alpha2.ClusterNetworkPolicy
	accounts         []*cloudv1alpha1.CloudProviderAccount
	selectors        []*cloudv1alpha1.CloudEntitySelector
	vms              []*cloudv1alpha1.VirtualMachine

	// documents finds where an object of a manifest stands, by objectKey.
	documents map[string]*manifest.Document
	refused   []manifest.Refusal
	notes     []string
	// gaps say what a snapshot does not tell.
	gaps []string
	// claimants are the clusters that the VPCs of a snapshot belong to.
	claimants []string
	// warnings are about what looks like a mistake.
	warnings []planWarning
}

func objectKey(group, kind, namespace, name string) string {
	return group + " " + kind + " " + namespace + "/" + name
}

// loadInputs reads manifests that are all there is.
func loadInputs(files []string, stdin io.Reader) (*inputs, error) {
	in, err := readManifests(files, stdin, nil)
	if err != nil {
		return nil, err
	}
	in.supposeNamespaces()
	return in, nil
}

// readManifests reads manifests. Their policies may be in these tiers besides their own and the built-in ones.
func readManifests(files []string, stdin io.Reader, given []*v1beta1.Tier) (*inputs, error) {
	set, err := manifest.Load(files, stdin)
	if err != nil {
		return nil, err
	}
	in := &inputs{documents: map[string]*manifest.Document{}, notes: set.Notes}
	admits := newAdmission(set, given)
	for _, d := range set.Documents {
		if d.Object.GetUID() == "" {
			d.Object.SetUID(offlineUID(d.Group, d.Kind, d.Object))
		}
		in.documents[objectKey(d.Group, d.Kind, d.Object.GetNamespace(), d.Object.GetName())] = d
		if r := admits.refusal(d); r != nil {
			in.refused = append(in.refused, *r)
			continue
		}
		in.add(d.Object)
	}
	return in, nil
}

// offlineUID is a uid for an object that was never stored. It depends on the name only.
func offlineUID(group, kind string, o metav1.Object) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(objectKey(group, kind, o.GetNamespace(), o.GetName()))).String())
}

func (in *inputs) add(object manifest.Object) {
	switch o := object.(type) {
	case *corev1.Namespace:
		in.namespaces = append(in.namespaces, o)
	case *corev1.Pod:
		in.pods = append(in.pods, o)
	case *corev1.Node:
		in.nodes = append(in.nodes, o)
	case *corev1.Service:
		in.services = append(in.services, o)
	case *discoveryv1.EndpointSlice:
		in.slices = append(in.slices, o)
	case *corev1.Secret:
		in.secrets = append(in.secrets, o)
	case *v1alpha2.ExternalEntity:
		in.entities = append(in.entities, o)
	case *v1alpha1.ExternalNode:
		in.externalNodes = append(in.externalNodes, o)
	case *v1beta1.Tier:
		in.tiers = append(in.tiers, o)
	case *v1beta1.Group:
		in.groups = append(in.groups, o)
	case *v1beta1.ClusterGroup:
		in.clusterGroups = append(in.clusterGroups, o)
	case *v1beta1.NetworkPolicy:
		in.policies = append(in.policies, o)
	case *v1beta1.ClusterNetworkPolicy:
		in.clusterPolicies = append(in.clusterPolicies, o)
	case *networkingv1.NetworkPolicy:
		in.k8sPolicies = append(in.k8sPolicies, o)
	case *upstreamv1alpha1.AdminNetworkPolicy:
		in.adminPolicies = append(in.adminPolicies, o)
	case *upstreamv1alpha1.BaselineAdminNetworkPolicy:
		in.baselinePolicies = append(in.baselinePolicies, o)
	case *upstreamv1alpha2.ClusterNetworkPolicy:
		in.upstreamPolicies = append(in.upstreamPolicies, o)
	case *cloudv1alpha1.CloudProviderAccount:
		in.accounts = append(in.accounts, o)
	case *cloudv1alpha1.CloudEntitySelector:
		in.selectors = append(in.selectors, o)
	case *cloudv1alpha1.VirtualMachine:
		in.vms = append(in.vms, o)
	}
}

// supposeNamespaces adds the Namespaces that objects are in but no manifest defines: they must exist where the manifests
// are applied. Their labels are not known.
func (in *inputs) supposeNamespaces() {
	known := map[string]bool{}
	for _, n := range in.namespaces {
		known[n.Name] = true
	}
	for _, d := range in.documents {
		ns := d.Object.GetNamespace()
		if ns == "" || known[ns] {
			continue
		}
		known[ns] = true
		in.namespaces = append(in.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		in.notes = append(in.notes, fmt.Sprintf("Namespace %s is not in the manifests; it is supposed to have no labels but its name", ns))
	}
	slices.Sort(in.notes)
}

// computation is what inputs mean: they and what the engine makes of them.
type computation struct {
	*inputs
	engine  *policy.Engine
	delta   *policy.Delta
	listing *policy.Listing
	// ends are the entities that a flow may begin or end at.
	ends map[policy.EntityRef]policy.Entity
}

// compute runs the engine over the inputs. What the engine refuses is added to in.refused.
func compute(in *inputs) *computation {
	c := &computation{inputs: in, engine: policy.New(policy.Options{}), ends: map[policy.EntityRef]policy.Entity{}}
	for _, n := range in.namespaces {
		c.engine.PutNamespace(convert.Namespace(n))
	}
	c.putEntities()
	for _, s := range in.services {
		c.engine.PutService(convert.Service(s))
	}
	for _, t := range in.tiers {
		c.engine.PutTier(convert.Tier(t))
	}
	for _, g := range in.groups {
		c.engine.PutGroup(convert.Group(g))
	}
	for _, g := range in.clusterGroups {
		c.engine.PutGroup(convert.ClusterGroup(g))
	}
	for _, p := range in.k8sPolicies {
		c.engine.PutPolicy(convert.KubernetesNetworkPolicy(p))
	}
	for _, p := range in.policies {
		c.put(convert.NetworkPolicy(p), p.ObjectMeta)
	}
	for _, p := range in.clusterPolicies {
		c.put(convert.ClusterNetworkPolicy(p), p.ObjectMeta)
	}
	for _, p := range in.adminPolicies {
		c.engine.PutPolicy(convert.AdminNetworkPolicy(p))
	}
	for _, p := range in.baselinePolicies {
		c.engine.PutPolicy(convert.BaselineAdminNetworkPolicy(p))
	}
	for _, p := range in.upstreamPolicies {
		c.engine.PutPolicy(convert.UpstreamClusterNetworkPolicy(p))
	}
	c.delta = c.engine.Commit()
	c.listing = c.engine.Listing()
	for _, p := range c.delta.Problems {
		c.refuseProblem(p)
	}
	return c
}

// put gives the engine an Antrea policy, completed.
func (c *computation) put(p policy.Policy, meta metav1.ObjectMeta) {
	for _, w := range webhook.AnnotationWarnings(meta.Annotations) {
		c.notes = append(c.notes, fmt.Sprintf("%s: %s", strings.TrimPrefix(meta.Namespace+"/"+meta.Name, "/"), w))
	}
	admission.Default(&p)
	p.Warnings = append(admission.Warnings(&p), admission.Pitfalls(&p)...)
	c.engine.PutPolicy(p)
}

func (c *computation) putEntities() {
	put := func(kind string, e policy.Entity, errs []policy.FieldError) {
		if len(errs) > 0 {
			group := ""
			if kind == "ExternalEntity" {
				group = v1alpha2.GroupName
			}
			c.refuse(group, manifest.Refusal{Kind: kind, Namespace: e.Namespace, Name: e.Name, Code: 422}, errs)
			return
		}
		c.ends[e.EntityRef] = e
		c.engine.PutEntity(e)
	}
	for _, p := range c.pods {
		e, errs := convert.Pod(p)
		put("Pod", e, errs)
	}
	for _, n := range c.nodes {
		e, errs := convert.Node(n)
		put("Node", e, errs)
	}
	for _, x := range c.entities {
		e, errs := convert.ExternalEntity(x)
		put("ExternalEntity", e, errs)
	}
	for _, n := range c.externalNodes {
		x := convert.EntityOfExternalNode(n)
		if x == nil {
			continue
		}
		e, errs := convert.ExternalEntity(x)
		if _, given := c.ends[e.EntityRef]; given {
			c.notes = append(c.notes, fmt.Sprintf("ExternalNode %s/%s: the ExternalEntity %s that would stand for it is given already: no policy is enforced on the ExternalNode "+
				"unless that is its own", n.Namespace, n.Name, e.Name))
			continue
		}
		put("ExternalEntity", e, errs)
	}
}

// refuseProblem reports what the engine finds wrong, or strange, with a policy or group.
func (c *computation) refuseProblem(p policy.Problem) {
	group, kind, namespace, name := v1beta1.GroupName, "", p.Policy.Namespace, p.Policy.Name
	switch {
	case p.Policy.Kind == policy.KubernetesNetworkPolicy:
		group, kind = networkingv1.GroupName, "NetworkPolicy"
	case p.Policy.Kind == policy.AntreaNetworkPolicy:
		kind = "NetworkPolicy"
	case p.Policy.Kind == policy.AntreaClusterNetworkPolicy:
		kind = "ClusterNetworkPolicy"
	case p.Policy.Kind.Upstream():
		group, kind = upstreamv1alpha2.GroupName, string(p.Policy.Kind)
	case p.Group.Namespace != "":
		kind, namespace, name = "Group", p.Group.Namespace, p.Group.Name
	default:
		kind, name = "ClusterGroup", p.Group.Name
	}
	if len(p.Errors) > 0 {
		c.refuse(group, manifest.Refusal{Kind: kind, Namespace: namespace, Name: name, Code: 400}, p.Errors)
	}
	if len(p.Warnings) > 0 {
		note := fmt.Sprintf("%s %s: %s", kind, strings.TrimPrefix(namespace+"/"+name, "/"), policy.JoinErrors(p.Warnings))
		if d := c.documents[objectKey(group, kind, namespace, name)]; d != nil {
			note = fmt.Sprintf("%s: %s", d.At(p.Warnings[0].Field), note)
		}
		c.notes = append(c.notes, note)
	}
}

// refuse notes why an object of an API group is refused.
func (c *computation) refuse(group string, r manifest.Refusal, errs []policy.FieldError) {
	r.Text = policy.JoinErrors(errs)
	if d := c.documents[objectKey(group, r.Kind, r.Namespace, r.Name)]; d != nil {
		r.Position = d.At(errs[0].Field)
	}
	c.refused = append(c.refused, r)
}
