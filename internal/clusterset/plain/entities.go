package plain

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// Namespace holds the ExternalEntities for workloads of other clusters. It is the controller's own.
const Namespace = "nephele-set"

// MostAddresses is how many addresses one ExternalEntity has at most: so many change with one
// write, and with one small change of a computed group.
const MostAddresses = 64

// LabelOf is the label of ExternalEntities that are in a remote group.
func LabelOf(group string) string { return setv1alpha1.ClusterLabelPrefix + group }

// Is reports whether an ExternalEntity is one for workloads of other clusters.
func Is(o metav1.Object) bool {
	return o.GetNamespace() == Namespace && o.GetLabels()[setv1alpha1.LabelFromHub] == "true"
}

// Entities puts the members of remote groups into ExternalEntities: those that are in the same
// groups, and have the same named ports, up to MostAddresses into one. What is in one stays there,
// so that a change writes little. It knows what there is from Load, Hear, Wrote and Removed.
type Entities struct {
	bundles map[string]*bundle
	kinds   map[string]*kind
	// home says in which bundle a member is, hints in which ExternalEntity of a kind an address was
	// found.
	home  map[string]string
	hints map[hint]string
	// found is what there is, dirty what may differ from what there is to be.
	found map[string]*v1alpha2.ExternalEntity
	dirty map[string]struct{}
}

type hint struct {
	kind string
	addr netip.Addr
}

// kind is what bundles of one kind have together: how many there are, the number of the next one,
// and which may have room.
type kind struct {
	bundles, next int
	room          []string
}

// bundle is what one ExternalEntity is for.
type bundle struct {
	kind    string
	groups  []string
	ports   []v1alpha2.NamedPort
	members map[string][]netip.Addr
	size    int
	// listed says that its kind lists it as one that may have room.
	listed bool
}

// NewEntities returns empty Entities.
func NewEntities() *Entities {
	return &Entities{
		bundles: map[string]*bundle{}, kinds: map[string]*kind{}, home: map[string]string{}, hints: map[hint]string{},
		found: map[string]*v1alpha2.ExternalEntity{}, dirty: map[string]struct{}{},
	}
}

// kindOf tells bundles apart: members of one kind may be in one.
func kindOf(groups []string, ports []v1alpha2.NamedPort) string {
	var b strings.Builder
	b.WriteString(strings.Join(groups, ","))
	for _, p := range ports {
		fmt.Fprintf(&b, ";%s/%s=%d", p.Name, p.Protocol, p.Port)
	}
	return b.String()
}

// nameOf is the name of a bundle of a kind.
func nameOf(kind string, n int) string {
	sum := sha256.Sum256([]byte(kind))
	return "r-" + hex.EncodeToString(sum[:8]) + "-" + strconv.Itoa(n)
}

// Load takes over the present objects, before anything else, so that a workload that joins the same
// groups again gets its former object.
func (x *Entities) Load(all []v1alpha2.ExternalEntity) {
	for i := range all {
		o := &all[i]
		x.found[o.Name], x.dirty[o.Name] = o, struct{}{}
		groups := groupsOf(o)
		kind := kindOf(groups, o.Spec.Ports)
		at := strings.LastIndexByte(o.Name, '-')
		n, err := strconv.Atoi(o.Name[at+1:])
		if err != nil || n < 0 || nameOf(kind, n) != o.Name {
			continue // it goes
		}
		x.begin(o.Name, n, &bundle{kind: kind, groups: groups, ports: slices.Clone(o.Spec.Ports)})
		for _, e := range o.Spec.Endpoints {
			if a, err := netip.ParseAddr(e.IP); err == nil {
				x.hints[hint{kind, a}] = o.Name
			}
		}
	}
}

func groupsOf(o *v1alpha2.ExternalEntity) []string {
	var out []string
	for k := range o.Labels {
		if group, is := strings.CutPrefix(k, setv1alpha1.ClusterLabelPrefix); is && k != setv1alpha1.LabelFromHub {
			out = append(out, group)
		}
	}
	slices.Sort(out)
	return out
}

// Put takes over a member of remote groups, whose labels are these groups; one that is in none
// goes.
func (x *Entities) Put(e *policy.Entity) {
	if len(e.Labels) == 0 {
		x.Drop(e.Name)
		return
	}
	groups := slices.Sorted(maps.Keys(e.Labels))
	ports := make([]v1alpha2.NamedPort, 0, len(e.Ports))
	for _, p := range e.Ports {
		ports = append(ports, v1alpha2.NamedPort{Protocol: v1alpha2.Protocol(p.Protocol), Port: p.Port, Name: p.Name})
	}
	kind := kindOf(groups, ports)
	if at, is := x.home[e.Name]; is && x.bundles[at].kind == kind {
		return // its name says its addresses
	}
	x.Drop(e.Name)
	name := x.hints[hint{kind, e.Addresses[0]}]
	if b := x.bundles[name]; b == nil || b.size+len(e.Addresses) > MostAddresses {
		name = x.withRoom(kind, len(e.Addresses))
	}
	if name == "" {
		n := 0
		if k := x.kinds[kind]; k != nil {
			n = k.next
		}
		name = nameOf(kind, n)
		x.begin(name, n, &bundle{kind: kind, groups: groups, ports: ports})
	}
	b := x.bundles[name]
	b.members[e.Name], b.size = e.Addresses, b.size+len(e.Addresses)
	x.home[e.Name], x.dirty[name] = name, struct{}{}
}

// begin adds a bundle that is empty, the nth of its kind.
func (x *Entities) begin(name string, n int, b *bundle) {
	b.members = map[string][]netip.Addr{}
	x.bundles[name] = b
	k := x.kinds[b.kind]
	if k == nil {
		k = &kind{}
		x.kinds[b.kind] = k
	}
	k.bundles, k.next, k.room, b.listed = k.bundles+1, max(k.next, n+1), append(k.room, name), true
}

// end forgets a bundle that is empty.
func (x *Entities) end(name string) {
	b := x.bundles[name]
	if b == nil {
		return
	}
	delete(x.bundles, name)
	if k := x.kinds[b.kind]; k.bundles > 1 {
		k.bundles--
	} else {
		delete(x.kinds, b.kind)
	}
}

// withRoom returns a bundle of a kind with room for so many addresses; "" if there is none.
func (x *Entities) withRoom(of string, n int) string {
	k := x.kinds[of]
	if k == nil {
		return ""
	}
	for ; len(k.room) > 0; k.room = k.room[:len(k.room)-1] {
		name := k.room[len(k.room)-1]
		b := x.bundles[name]
		if b == nil {
			continue
		}
		if b.size+n <= MostAddresses {
			return name
		}
		b.listed = false
	}
	return ""
}

// Drop forgets a member.
func (x *Entities) Drop(member string) {
	name, is := x.home[member]
	if !is {
		return
	}
	b := x.bundles[name]
	b.size -= len(b.members[member])
	delete(b.members, member)
	delete(x.home, member)
	x.dirty[name] = struct{}{}
	if !b.listed {
		k := x.kinds[b.kind]
		k.room, b.listed = append(k.room, name), true
	}
}

// Hear takes over what has become of an ExternalEntity.
func (x *Entities) Hear(o *v1alpha2.ExternalEntity, gone bool) {
	if gone {
		delete(x.found, o.Name)
	} else {
		x.found[o.Name] = o
	}
	x.dirty[o.Name] = struct{}{}
}

// want is an ExternalEntity as it is to be; nil if it is to be none.
func (x *Entities) want(name string) *v1alpha2.ExternalEntity {
	b := x.bundles[name]
	if b == nil || len(b.members) == 0 {
		return nil
	}
	o := &v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: map[string]string{setv1alpha1.LabelFromHub: "true"}}}
	for _, g := range b.groups {
		o.Labels[LabelOf(g)] = ""
	}
	var all []netip.Addr
	for _, m := range b.members {
		all = append(all, m...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	for _, a := range slices.Compact(all) {
		o.Spec.Endpoints = append(o.Spec.Endpoints, v1alpha2.Endpoint{IP: a.String()})
	}
	o.Spec.Ports = b.ports
	return o
}

// Same reports whether an ExternalEntity is as another one is to be. Labels of others do not count.
func Same(have, want *v1alpha2.ExternalEntity) bool {
	return have.Labels[setv1alpha1.LabelFromHub] == "true" && slices.Equal(groupsOf(have), groupsOf(want)) && have.Spec.ExternalNode == "" &&
		slices.Equal(have.Spec.Ports, want.Spec.Ports) && slices.Equal(have.Spec.Endpoints, want.Spec.Endpoints)
}

// Step is a write: an ExternalEntity is to be so, or with Gone it is to be no more. Loses tells
// that addresses go by it.
type Step struct {
	Object      *v1alpha2.ExternalEntity
	Gone, Loses bool
}

// Steps are the writes that are due, in order: an entity that moves is added before it is removed.
// Without losses nothing is removed from where it is.
func (x *Entities) Steps(losses bool) []Step {
	var gain, lose, remove []Step
	for _, name := range slices.Sorted(maps.Keys(x.dirty)) {
		have, want := x.found[name], x.want(name)
		switch {
		case want == nil && have == nil:
			delete(x.dirty, name)
			x.end(name)
		case want == nil:
			remove = append(remove, Step{Object: have, Gone: true, Loses: true})
		case have == nil:
			gain = append(gain, Step{Object: want})
		case Same(have, want):
			delete(x.dirty, name)
		default:
			lost, both := missing(have, want), want.DeepCopy()
			if len(lost) <= MostAddresses { // more are not from here, and may be more than there may be
				both.Spec.Endpoints = append(both.Spec.Endpoints, lost...)
			}
			slices.SortFunc(both.Spec.Endpoints, compareEndpoints)
			if !Same(have, both) {
				gain = append(gain, Step{Object: both})
			}
			if len(lost) > 0 {
				lose = append(lose, Step{Object: want, Loses: true})
			}
		}
	}
	if !losses {
		return gain
	}
	return slices.Concat(gain, lose, remove)
}

// missing are the endpoints of one that another one does not have.
func missing(of, in *v1alpha2.ExternalEntity) []v1alpha2.Endpoint {
	var out []v1alpha2.Endpoint
	for _, e := range of.Spec.Endpoints {
		if !slices.Contains(in.Spec.Endpoints, e) {
			out = append(out, e)
		}
	}
	return out
}

func compareEndpoints(a, b v1alpha2.Endpoint) int {
	x, errX := netip.ParseAddr(a.IP)
	y, errY := netip.ParseAddr(b.IP)
	if errX != nil || errY != nil {
		return cmp.Or(strings.Compare(a.IP, b.IP), strings.Compare(a.Name, b.Name))
	}
	return cmp.Or(x.Compare(y), strings.Compare(a.Name, b.Name))
}

// Wrote notes that an ExternalEntity is now so.
func (x *Entities) Wrote(o *v1alpha2.ExternalEntity) { x.Hear(o, false) }

// Removed notes that there is none of a name any more.
func (x *Entities) Removed(name string) {
	delete(x.found, name)
	x.dirty[name] = struct{}{}
}
