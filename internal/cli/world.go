package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/manifest"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// world is what policies are computed from, read from manifests or from a cluster.
type world struct {
	namespaces      []*corev1.Namespace
	pods            []*corev1.Pod
	nodes           []*corev1.Node
	services        []*corev1.Service
	entities        []*v1alpha2.ExternalEntity
	externalNodes   []*v1alpha1.ExternalNode
	tiers           []*v1beta1.Tier
	groups          []*v1beta1.Group
	clusterGroups   []*v1beta1.ClusterGroup
	policies        []*v1beta1.NetworkPolicy
	clusterPolicies []*v1beta1.ClusterNetworkPolicy
	k8sPolicies     []*networkingv1.NetworkPolicy
	accounts        []*cloudv1alpha1.CloudProviderAccount
	selectors       []*cloudv1alpha1.CloudEntitySelector
	vms             []*cloudv1alpha1.VirtualMachine

	// documents finds where an object of a manifest stands, by objectKey.
	documents map[string]*manifest.Document
	refused   []manifest.Refusal
	notes     []string
}

func objectKey(group, kind, namespace, name string) string {
	return group + " " + kind + " " + namespace + "/" + name
}

// loadWorld reads manifests.
func loadWorld(files []string, stdin io.Reader) (*world, error) {
	set, err := manifest.Load(files, stdin)
	if err != nil {
		return nil, err
	}
	w := &world{documents: map[string]*manifest.Document{}, refused: set.Refused, notes: set.Notes}
	for _, d := range set.Documents {
		if d.Object.GetUID() == "" {
			d.Object.SetUID(offlineUID(d.Group, d.Kind, d.Object))
		}
		w.documents[objectKey(d.Group, d.Kind, d.Object.GetNamespace(), d.Object.GetName())] = d
		w.add(d.Object)
	}
	w.supposeNamespaces()
	return w, nil
}

// offlineUID is a uid for an object that was never stored. It depends on the name only.
func offlineUID(group, kind string, o metav1.Object) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(objectKey(group, kind, o.GetNamespace(), o.GetName()))).String())
}

func (w *world) add(object manifest.Object) {
	switch o := object.(type) {
	case *corev1.Namespace:
		w.namespaces = append(w.namespaces, o)
	case *corev1.Pod:
		w.pods = append(w.pods, o)
	case *corev1.Node:
		w.nodes = append(w.nodes, o)
	case *corev1.Service:
		w.services = append(w.services, o)
	case *v1alpha2.ExternalEntity:
		w.entities = append(w.entities, o)
	case *v1alpha1.ExternalNode:
		w.externalNodes = append(w.externalNodes, o)
	case *v1beta1.Tier:
		w.tiers = append(w.tiers, o)
	case *v1beta1.Group:
		w.groups = append(w.groups, o)
	case *v1beta1.ClusterGroup:
		w.clusterGroups = append(w.clusterGroups, o)
	case *v1beta1.NetworkPolicy:
		w.policies = append(w.policies, o)
	case *v1beta1.ClusterNetworkPolicy:
		w.clusterPolicies = append(w.clusterPolicies, o)
	case *networkingv1.NetworkPolicy:
		w.k8sPolicies = append(w.k8sPolicies, o)
	case *cloudv1alpha1.CloudProviderAccount:
		w.accounts = append(w.accounts, o)
	case *cloudv1alpha1.CloudEntitySelector:
		w.selectors = append(w.selectors, o)
	case *cloudv1alpha1.VirtualMachine:
		w.vms = append(w.vms, o)
	}
}

// supposeNamespaces adds the Namespaces that objects are in but no manifest defines: they must exist where the manifests
// are applied. Their labels are not known.
func (w *world) supposeNamespaces() {
	known := map[string]bool{}
	for _, n := range w.namespaces {
		known[n.Name] = true
	}
	for _, d := range w.documents {
		ns := d.Object.GetNamespace()
		if ns == "" || known[ns] {
			continue
		}
		known[ns] = true
		w.namespaces = append(w.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		w.notes = append(w.notes, fmt.Sprintf("Namespace %s is not in the manifests; it is supposed to have no labels but its name", ns))
	}
	slices.Sort(w.notes)
}

// computation is a world and what the engine makes of it.
type computation struct {
	*world
	engine  *policy.Engine
	delta   *policy.Delta
	listing *policy.Listing
	// ends are the entities that a flow may begin or end at.
	ends map[policy.EntityRef]policy.Entity
}

// compute runs the engine over the world. What the engine refuses is added to w.refused.
func compute(w *world) *computation {
	c := &computation{world: w, engine: policy.New(policy.Options{}), ends: map[policy.EntityRef]policy.Entity{}}
	for _, n := range w.namespaces {
		c.engine.PutNamespace(convert.Namespace(n))
	}
	c.putEntities()
	for _, s := range w.services {
		c.engine.PutService(convert.Service(s))
	}
	for _, t := range w.tiers {
		c.engine.PutTier(convert.Tier(t))
	}
	for _, g := range w.groups {
		c.engine.PutGroup(convert.Group(g))
	}
	for _, g := range w.clusterGroups {
		c.engine.PutGroup(convert.ClusterGroup(g))
	}
	for _, p := range w.k8sPolicies {
		c.engine.PutPolicy(convert.KubernetesNetworkPolicy(p))
	}
	for _, p := range w.policies {
		c.engine.PutPolicy(convert.NetworkPolicy(p))
	}
	for _, p := range w.clusterPolicies {
		c.engine.PutPolicy(convert.ClusterNetworkPolicy(p))
	}
	c.delta = c.engine.Commit()
	c.listing = c.engine.Listing()
	for _, p := range c.delta.Problems {
		c.refuseProblem(p)
	}
	return c
}

func (c *computation) putEntities() {
	put := func(kind string, e policy.Entity, errs []policy.FieldError) {
		if len(errs) > 0 {
			group := ""
			if kind == "ExternalEntity" {
				group = v1alpha2.GroupName
			}
			c.refuse(group, kind, e.Namespace, e.Name, 422, errs)
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
		if _, given := c.ends[e.EntityRef]; !given {
			put("ExternalEntity", e, errs)
		}
	}
}

// refuseProblem reports what the engine finds wrong with a policy or group.
func (c *computation) refuseProblem(p policy.Problem) {
	if len(p.Errors) == 0 {
		return
	}
	group, kind, namespace, name := v1beta1.GroupName, "", p.Policy.Namespace, p.Policy.Name
	switch {
	case p.Policy.Kind == policy.KubernetesNetworkPolicy:
		group, kind = networkingv1.GroupName, "NetworkPolicy"
	case p.Policy.Kind == policy.AntreaNetworkPolicy:
		kind = "NetworkPolicy"
	case p.Policy.Kind == policy.AntreaClusterNetworkPolicy:
		kind = "ClusterNetworkPolicy"
	case p.Group.Namespace != "":
		kind, namespace, name = "Group", p.Group.Namespace, p.Group.Name
	default:
		kind, name = "ClusterGroup", p.Group.Name
	}
	c.refuse(group, kind, namespace, name, 400, p.Errors)
}

func (c *computation) refuse(group, kind, namespace, name string, code int, errs []policy.FieldError) {
	r := manifest.Refusal{Kind: kind, Namespace: namespace, Name: name, Code: code, Text: policy.JoinErrors(errs)}
	if d := c.documents[objectKey(group, kind, namespace, name)]; d != nil {
		r.Position = d.At(errs[0].Field)
	}
	c.refused = append(c.refused, r)
}
