// Package classes puts together endpoints that are alike, so that a map of who reaches whom shows
// one node for a hundred replicas.
//
// It owns the class: its key, what it is called and its members in the world as it is and in
// another one. It asks a world of internal/explain and decides nothing about traffic. Everything is
// pure.
package classes

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/imported"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/reach"
)

// Kind says what the machines of a Class are.
type Kind string

// The kinds of classes.
const (
	VM       Kind = "VM"
	Pod      Kind = "Pod"
	Node     Kind = "Node"
	External Kind = "ExternalEntity"
	// Service and Interface: what is imported from a cloud beside VMs.
	Service   Kind = "CloudNativeService"
	Interface Kind = "NetworkInterface"
	// Unselected: machines in a cloud that no selector has chosen.
	Unselected Kind = "Unselected"
)

// Class is endpoints that are alike: in Namespace, place and mode, and in what is decided about
// their traffic with anybody, now and then.
type Class struct {
	// Key stays while the first member, by name, stays in it.
	Key, Label string
	Kind       Kind
	// Service is the kind of native services, such as RDSInstance.
	Service   string
	Namespace string
	// Role and Tier are the values of such labels that all members have; empty if there are none.
	Role, Tier string
	// Account, Region and Network are where the machines are; empty outside of clouds.
	Account, Region, Network string
	// Suspended is why policies are not enforced on them then; empty if they are.
	Suspended string
	// Names holds the names of the members, sorted.
	Names []string
	// Now and Then are the members in the two worlds, sorted by name.
	Now, Then []*reach.Endpoint
}

// ends are one endpoint in two worlds; one of them may be nil.
type ends struct {
	now, then *reach.Endpoint
	// alike is what they have in common with others of their class.
	alike string
	class *Class
}

// Of puts together the endpoints of a world that are alike there, and in another world, if that is
// not nil. The public addresses of machines and endpoints that may not be seen are in no class.
// They are sorted by kind, Namespace and label.
func Of(now, then *explain.World) []*Class {
	type identity struct {
		policy.EntityRef
		networkInterface string
		name             string
	}
	all := map[identity]*ends{}
	var order []*ends
	add := func(w *explain.World, put func(*ends, *reach.Endpoint)) {
		places := places(w)
		alike := w.Alike(inClass)
		for i := range w.Endpoints {
			e := &w.Endpoints[i]
			if !inClass(e) {
				continue
			}
			id := identity{EntityRef: e.EntityRef, networkInterface: e.Interface}
			if e.EntityRef == (policy.EntityRef{}) {
				id.name = e.Name
			}
			x := all[id]
			if x == nil {
				x = &ends{}
				all[id] = x
				order = append(order, x)
			}
			at := places[e.Interface]
			x.class = &Class{
				Kind: classKind(e), Namespace: e.Namespace, Account: cmp.Or(at.account, accountOf(e.Host)), Region: at.region, Network: at.network, Suspended: e.Suspended,
			}
			if x.class.Kind == Service {
				x.class.Service = w.Label(e, cloudv1alpha1.LabelCloudServiceKind)
			}
			x.alike += fmt.Sprint("|", alike[i], *x.class)
			put(x, e)
		}
	}
	add(now, func(x *ends, e *reach.Endpoint) { x.now = e })
	if then != nil {
		for _, x := range order {
			x.alike += "|now"
		}
		add(then, func(x *ends, e *reach.Endpoint) { x.then = e })
	}
	classes := map[string]*Class{}
	var out []*Class
	for _, x := range order {
		c := classes[x.alike]
		if c == nil {
			c = x.class
			classes[x.alike] = c
			out = append(out, c)
		}
		if x.now != nil {
			c.Now = append(c.Now, x.now)
		}
		if x.then != nil {
			c.Then = append(c.Then, x.then)
		}
	}
	last := then
	if last == nil {
		last = now
	}
	for _, c := range out {
		c.finish(last)
	}
	slices.SortFunc(out, func(a, b *Class) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Label, b.Label), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// inClass reports whether an endpoint belongs to a class.
func inClass(e *reach.Endpoint) bool { return !e.Public && len(e.Addresses) > 0 }

func classKind(e *reach.Endpoint) Kind {
	switch {
	case e.Kind == policy.KindPod:
		return Pod
	case e.Kind == policy.KindNode:
		return Node
	case e.Kind == 0:
		return Unselected
	case accountOf(e.Host) == "":
		return External
	}
	switch imported.KindOf(e.EntityRef) {
	case imported.Service:
		return Service
	case imported.Interface:
		return Interface
	}
	return VM
}

// accountOf is the account that enforces policies on a machine; empty if none does.
func accountOf(host string) string {
	account, inCloud := strings.CutPrefix(host, cloud.EnforcerPrefix)
	if !inCloud {
		return ""
	}
	return account
}

// finish names a class and sorts it.
func (c *Class) finish(w *explain.World) {
	byName := func(a, b *reach.Endpoint) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Interface, b.Interface))
	}
	slices.SortFunc(c.Now, byName)
	slices.SortFunc(c.Then, byName)
	for _, e := range slices.Concat(c.Now, c.Then) {
		c.Names = append(c.Names, e.Name)
	}
	slices.Sort(c.Names)
	c.Names = slices.Compact(c.Names)
	first := slices.Concat(c.Then, c.Now)[0]
	sum := sha256.Sum256([]byte(fmt.Sprint(c.Kind, first.EntityRef, first.Interface, first.Name)))
	c.Key = "c-" + hex.EncodeToString(sum[:8])
	_, c.Role, c.Tier = Named(labelsOf(w, c))
	c.Label = label(w, c)
}

// names are the labels that say best what a machine is, the best first; roles and tiers are those
// that say what it does there, and on which level of an application.
var (
	names = [...]string{"app.kubernetes.io/name", "app", "k8s-app", "role", "name", "component"}
	roles = [...]string{"role", "component", "app.kubernetes.io/component", "app.kubernetes.io/name", "app", "k8s-app"}
	tiers = [...]string{"tier", "layer"}
)

// label is what to call a class: the value of a label that all have, or else their names.
func label(w *explain.World, c *Class) string {
	if value := common(labelsOf(w, c), names[:]); value != "" {
		return value
	}
	if len(c.Names) == 1 {
		return short(c.Names[0])
	}
	return fmt.Sprintf("%s and %d more", short(c.Names[0]), len(c.Names)-1)
}

// labelsOf are the labels of the members of a class.
func labelsOf(w *explain.World, c *Class) []map[string]string {
	var out []map[string]string
	for _, e := range slices.Concat(c.Then, c.Now) {
		out = append(out, w.Labels(e))
	}
	return out
}

// Named is what to call workloads with these labels, and their role and tier, as far as all have
// them in common; empty texts otherwise.
func Named(all []map[string]string) (label, role, tier string) {
	return common(all, names[:]), common(all, roles[:]), common(all, tiers[:])
}

// common is the value that all have of the first label of which they have one.
func common(all []map[string]string, keys []string) string {
	for _, key := range keys {
		value := tag(all[0], key)
		if value != "" && !slices.ContainsFunc(all, func(labels map[string]string) bool { return tag(labels, key) != value }) {
			return value
		}
	}
	return ""
}

// short is the name of an endpoint without its kind and its Namespace, whole, whatever is in it. Of
// an id of Azure it is the name of the resource.
func short(name string) string {
	word, rest, _ := strings.Cut(name, "/")
	switch word {
	case name:
		return name
	case "":
		return name[strings.LastIndexByte(name, '/')+1:]
	case "node", "cloud":
		return rest
	}
	if _, whole, ok := strings.Cut(rest, "/"); ok {
		return whole
	}
	return name
}

// tag is the value of a label, or of the tag of a VM that became one.
func tag(labels map[string]string, key string) string {
	const ofTags = cloudv1alpha1.LabelPrefix + "tag-"
	return cmp.Or(labels[key], labels[ofTags+key], labels[ofTags+strings.ToUpper(key[:1])+key[1:]])
}

// location is where an interface is.
type location struct{ account, region, network string }

func places(w *explain.World) map[string]location {
	out := map[string]location{}
	for _, s := range w.Snapshots() {
		for i := range s.Interfaces {
			out[s.Interfaces[i].ID] = location{s.Account, s.Region, s.Interfaces[i].NetworkID}
		}
	}
	return out
}
