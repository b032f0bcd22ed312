package explain

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/reach"
)

// ClassKind says what the machines of a Class are.
type ClassKind string

// The kinds of classes.
const (
	ClassVM       ClassKind = "VM"
	ClassPod      ClassKind = "Pod"
	ClassNode     ClassKind = "Node"
	ClassExternal ClassKind = "ExternalEntity"
	// ClassService and ClassInterface: what is imported from a cloud beside VMs.
	ClassService   ClassKind = "CloudNativeService"
	ClassInterface ClassKind = "NetworkInterface"
	// ClassUnselected: machines in a cloud that no selector has chosen.
	ClassUnselected ClassKind = "Unselected"
)

// Class is endpoints that are alike: in Namespace, place and mode, and in what is decided about
// their traffic with anybody, now and then.
type Class struct {
	// Key stays while the first member, by name, stays in it.
	Key, Label string
	Kind       ClassKind
	// Service is the kind of native services, such as RDSInstance.
	Service   string
	Namespace string
	// Role and Tier are the values of such labels that all members have; empty if there are none.
	Role, Tier string
	// Account, Region and Network are where the machines are; empty outside of clouds.
	Account, Region, Network string
	// Suspended is why policies are not enforced on them then; empty if they are.
	Suspended string
	// Names are those of the members, sorted.
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

// Classes puts together the endpoints of a world that are alike there, and in another world, if
// that is not nil. The public addresses of machines and whoever may not be seen are in no class.
// They are sorted by kind, Namespace and label.
func Classes(now, then *World) []*Class {
	type who struct {
		policy.EntityRef
		networkInterface string
		name             string
	}
	all := map[who]*ends{}
	var order []*ends
	gather := func(w *World, put func(*ends, *reach.Endpoint)) {
		places := w.places()
		alike := w.Alike(inClass)
		for i := range w.Endpoints {
			e := &w.Endpoints[i]
			if !inClass(e) {
				continue
			}
			id := who{EntityRef: e.EntityRef, networkInterface: e.Interface}
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
			if x.class.Kind == ClassService {
				x.class.Service = w.computation.Ends[e.EntityRef].Labels[cloudv1alpha1.LabelCloudServiceKind]
			}
			x.alike += fmt.Sprint("|", alike[i], *x.class)
			put(x, e)
		}
	}
	gather(now, func(x *ends, e *reach.Endpoint) { x.now = e })
	if then != nil {
		for _, x := range order {
			x.alike += "|now"
		}
		gather(then, func(x *ends, e *reach.Endpoint) { x.then = e })
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

func classKind(e *reach.Endpoint) ClassKind {
	switch {
	case e.Kind == policy.KindPod:
		return ClassPod
	case e.Kind == policy.KindNode:
		return ClassNode
	case e.Kind == 0:
		return ClassUnselected
	case accountOf(e.Host) == "":
		return ClassExternal
	}
	switch standsFor(e.EntityRef) {
	case objectService:
		return ClassService
	case objectInterface:
		return ClassInterface
	}
	return ClassVM
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
func (c *Class) finish(w *World) {
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
	c.Label, c.Role, c.Tier = w.label(c), w.common(c, roles[:]), w.common(c, tiers[:])
}

// telling are the labels that say best what a machine is, the best first; roles and tiers are those
// that say what it does there, and on which level of an application.
var (
	telling = [...]string{"app.kubernetes.io/name", "app", "k8s-app", "role", "name", "component"}
	roles   = [...]string{"role", "component", "app.kubernetes.io/component", "app.kubernetes.io/name", "app", "k8s-app"}
	tiers   = [...]string{"tier", "layer"}
)

// label is what to call a class: the value of a label that all have, or else their names.
func (w *World) label(c *Class) string {
	if value := w.common(c, telling[:]); value != "" {
		return value
	}
	if len(c.Names) == 1 {
		return short(c.Names[0])
	}
	return fmt.Sprintf("%s and %d more", short(c.Names[0]), len(c.Names)-1)
}

// common is the value that all members have of the first label of which they have one.
func (w *World) common(c *Class, keys []string) string {
	members := slices.Concat(c.Then, c.Now)
	for _, key := range keys {
		value := w.tag(members[0], key)
		if value != "" && !slices.ContainsFunc(members, func(e *reach.Endpoint) bool { return w.tag(e, key) != value }) {
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

// Label is the value of a label of an endpoint; empty if it has none.
func (w *World) Label(e *reach.Endpoint, key string) string {
	return w.computation.Ends[e.EntityRef].Labels[key]
}

// tag is the value of a label, or of the tag of a VM that became one.
func (w *World) tag(e *reach.Endpoint, key string) string {
	labels := w.computation.Ends[e.EntityRef].Labels
	const ofTags = cloudv1alpha1.LabelPrefix + "tag-"
	return cmp.Or(labels[key], labels[ofTags+key], labels[ofTags+strings.ToUpper(key[:1])+key[1:]])
}

// location is where an interface is.
type location struct{ account, region, network string }

func (w *World) places() map[string]location {
	out := map[string]location{}
	for _, s := range w.computation.snapshots() {
		for i := range s.Interfaces {
			out[s.Interfaces[i].ID] = location{s.Account, s.Region, s.Interfaces[i].NetworkID}
		}
	}
	return out
}
