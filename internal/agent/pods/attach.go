package pods

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/localpods"
	"github.com/nephele-io/nephele/internal/agent/nft"
)

const (
	// mostAttachments bounds those that are known; a Node has a few hundred Pods.
	mostAttachments = 4096
	// mostFarewells bounds the Pods that have lost their addresses, and are in the API still.
	mostFarewells = 4096
	// farewellTurns is for how many minutes the API is not believed about them.
	farewellTurns = 2
)

// attachmentKey identifies an attachment.
type attachmentKey struct{ container, iface string }

// Attached is an attachment that the runtime of the Node has told of.
type Attached struct {
	cni.Attachment
	// settled tells that all is known that decides which policies apply to the Pod.
	settled bool
	// seen tells that the Pod was among the Pods of the Node.
	seen bool
	// since is the version of the Node from which on it has its class; 0 before.
	since uint64
}

// farewell is what a Pod has lost.
type farewell struct {
	addresses []netip.Addr
	turns     int
}

// attachments are what the runtime of the Node says about addresses of Pods. That counts before
// what the API says, which is later. The lock of Pods guards them.
type attachments struct {
	known map[attachmentKey]*Attached
	// gone are Pods that have no network any more, whatever the API says still.
	gone map[types.UID]*farewell
	// inForce is the version of the Node that is in force.
	inForce uint64
	// before are the Pods that there were when the agent was here before, without the ones that
	// have gone since; nil if it was not. They count until it is known which there are.
	before []*corev1.Pod
	// changed is closed, and renewed, when something has changed that somebody may wait for.
	changed chan struct{}
}

func noAttachments() attachments {
	return attachments{known: map[attachmentKey]*Attached{}, gone: map[types.UID]*farewell{}, changed: make(chan struct{})}
}

func keyOf(a *cni.Attachment) attachmentKey { return attachmentKey{a.Container, a.Interface} }

// add records an attachment. A Pod that had its addresses before has lost them: the runtime has
// reassigned them. A Pod has one attachment of an interface.
func (t *attachments) add(x *Attached) error {
	key := keyOf(&x.Attachment)
	if t.known[key] == nil && len(t.known) >= mostAttachments {
		return fmt.Errorf("%d attachments are known, and no more are taken", mostAttachments)
	}
	for k, other := range t.known {
		same := other.Interface == x.Interface && other.Namespace == x.Namespace && other.Name == x.Name
		if same || k == key {
			delete(t.known, k)
			continue
		}
		// A new slice, because readers use the former one without the lock.
		var left []netip.Addr
		for _, a := range other.Addresses {
			if !slices.Contains(x.Addresses, a) {
				left = append(left, a)
			}
		}
		if other.Addresses = left; len(left) == 0 {
			delete(t.known, k)
		}
	}
	delete(t.gone, types.UID(x.UID))
	t.known[key] = x
	return nil
}

// remove forgets an attachment, and that the Pod had its addresses.
func (t *attachments) remove(key attachmentKey) {
	x := t.known[key]
	if x == nil {
		return
	}
	delete(t.known, key)
	t.before = slices.DeleteFunc(t.before, x.isOf)
	if x.UID != "" && len(t.gone) < mostFarewells {
		t.gone[types.UID(x.UID)] = &farewell{x.Addresses, farewellTurns}
	}
}

func (t *attachments) restore(kept *disk.State) {
	if kept.Node != nil {
		t.before = localpods.Former(kept.Node.Pods, kept.Attachments, kept.HostPorts)
	}
	for i := range kept.Attachments {
		if a := &kept.Attachments[i]; len(t.known) < mostAttachments && a.Normalize() == nil {
			t.known[keyOf(a)] = &Attached{Attachment: *a, settled: true, seen: true}
		}
	}
}

// signal wakes the callers that wait for a change.
func (t *attachments) signal() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// tale is what the runtime has said at one moment.
type tale struct {
	// partial tells that it is not known which Pods there are.
	partial  bool
	attached []Attached
	of       []*Attached
	// present tells which are of a Pod that the API knows.
	present []bool
	gone    map[types.UID][]netip.Addr
}

func (t *attachments) told() *tale {
	out := &tale{gone: map[types.UID][]netip.Addr{}}
	for _, x := range t.known {
		out.attached, out.of = append(out.attached, *x), append(out.of, x)
	}
	for uid, f := range t.gone {
		out.gone[uid] = f.addresses
	}
	out.present = make([]bool, len(out.of))
	return out
}

// pods returns the Pods of the Node with their addresses: first the Pods that the API knows, in the
// order of the list, then the Pods that only the runtime has reported.
func (t *tale) pods(list []*corev1.Pod) []nft.Pod {
	taken := map[netip.Addr]bool{}
	for i := range t.attached {
		for _, a := range t.attached[i].Addresses {
			taken[a] = true
		}
	}
	var out []nft.Pod
	for _, pod := range list {
		x, of := nft.Pod{Namespace: pod.Namespace, Name: pod.Name}, false
		for i := range t.attached {
			if a := &t.attached[i]; a.isOf(pod) {
				of, t.present[i] = true, true
				x.Addresses = append(x.Addresses, a.Addresses...)
				x.Waiting = x.Waiting || !a.settled
			}
		}
		if !of {
			for _, ip := range pod.Status.PodIPs {
				a, err := netip.ParseAddr(ip.IP)
				if a = a.Unmap(); err == nil && !taken[a] && !slices.Contains(t.gone[pod.UID], a) {
					x.Addresses = append(x.Addresses, a)
				}
			}
		}
		slices.SortFunc(x.Addresses, netip.Addr.Compare)
		out = append(out, x)
	}
	var unknown []nft.Pod
	for i := range t.attached {
		if a := &t.attached[i]; (!a.seen || t.partial) && !t.present[i] && len(a.Addresses) > 0 {
			unknown = append(unknown, nft.Pod{Namespace: a.Namespace, Name: a.Name, Addresses: slices.Clone(a.Addresses), Waiting: !a.settled})
		}
	}
	slices.SortFunc(unknown, func(a, b nft.Pod) int { return netip.Addr.Compare(a.Addresses[0], b.Addresses[0]) })
	return append(out, unknown...)
}

func (x *Attached) isOf(pod *corev1.Pod) bool {
	return x.Namespace == pod.Namespace && x.Name == pod.Name && (x.UID == "" || types.UID(x.UID) == pod.UID)
}

// took notes that a tale is in a version of the Node. Attachments of Pods that the API knows no
// more are forgotten. One that is not in the API has its class when it was settled without.
func (t *attachments) took(told *tale, version uint64) {
	for i, x := range told.of {
		here := told.present[i] || !told.attached[i].seen || told.partial
		if key := keyOf(&x.Attachment); !here && t.known[key] == x {
			delete(t.known, key)
		}
		x.seen = x.seen || told.present[i]
		if told.attached[i].settled && here && x.since == 0 {
			x.since = version
		}
	}
	t.signal()
}

// Attach takes in what the runtime says of an attachment, which is cut off until it is settled.
func (p *Pods) Attach(about cni.Attachment) (*Attached, error) {
	here, _ := p.ownNow() // as it is told by the status
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range about.Addresses {
		if p.own[a] || here[a] {
			return nil, fmt.Errorf("address %s is the Node's own", a)
		}
	}
	x := &Attached{Attachment: about}
	err := p.attachments.add(x)
	if err == nil {
		p.Wake()
	}
	return x, err
}

// Detach forgets an attachment; only that one, if it is given.
func (p *Pods) Detach(about cni.Attachment, only *Attached) {
	key := keyOf(&about)
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.known[key]; x != nil && (only == nil || only == x) {
		p.attachments.remove(key)
		p.Wake()
	}
}

// Keep forgets all attachments but the ones in a list.
func (p *Pods) Keep(list []cni.Attachment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	valid := map[attachmentKey]bool{}
	for i := range list {
		valid[keyOf(&list[i])] = true
	}
	for key, x := range p.known {
		if !valid[key] && x.settled { // one that is being made may be too new for the list
			p.attachments.remove(key)
			p.Wake()
		}
	}
}

// Release tells that all is known that decides about an attachment, so that it gets its class.
func (p *Pods) Release(x *Attached) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x.settled = true
	p.Wake()
}

// Enforced tells that a version of the Node is in force.
func (p *Pods) Enforced(version uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inForce = version
	p.attachments.signal()
}

// Signal wakes the callers that wait for the controller.
func (p *Pods) Signal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attachments.signal()
}

// Age lets the API be believed again, in time, about Pods that have lost their addresses.
func (p *Pods) Age() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, f := range p.gone {
		if f.turns--; f.turns < 0 {
			delete(p.gone, uid)
		}
	}
}

// SettledAttachments are the attachments of which all is known, in the order of their names.
func (p *Pods) SettledAttachments() []cni.Attachment {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []cni.Attachment
	for _, x := range p.known {
		if x.settled {
			out = append(out, x.Attachment)
		}
	}
	slices.SortFunc(out, func(a, b cni.Attachment) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Interface, b.Interface))
	})
	return out
}

// Holds reports whether the attachment has its class, in force, with these addresses.
func (p *Pods) Holds(about cni.Attachment) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.known[keyOf(&about)]
	return x != nil && x.settled && (x.since == 0 && x.seen || x.since > 0 && x.since <= p.inForce) && slices.Equal(x.Addresses, about.Addresses)
}

// Stands reports whether the API has told of the Pod of an attachment, and whether the attachment
// has its class, in force.
func (p *Pods) Stands(x *Attached) (seen, inForce bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return x.seen, x.since > 0 && x.since <= p.inForce
}

// Await waits until something holds, or ctx ends.
func (p *Pods) Await(ctx context.Context, holds func() bool) error {
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if holds() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
