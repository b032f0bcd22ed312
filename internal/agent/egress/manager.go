package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nodes"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// missingInterval is how often it is looked whether the cluster has the kind Egress by now.
	missingInterval = 30 * time.Second
	// former is for how long the way to a Node stays that had an address: rules may lead there.
	former = time.Minute
	// severTurns is for how many turns after a change connections are ended that leave otherwise:
	// the rules change a moment later.
	severTurns = 4
	// callLimit bounds a call of the API server that is not the renewal.
	callLimit = 2 * time.Second
	// announcements is how often others learn where an address is now.
	announcements = 2
)

// Kernel is that of the Node; a links.Kernel is one.
type Kernel interface {
	Assigned() (map[netip.Addr]int, error)
	Hold(a, own netip.Addr, seconds int) (link string, err error)
	Drop(a netip.Addr) error
	Unlearn(link string, six bool) ([]netip.Addr, error)
	Sever(of map[netip.Addr]bool, ends func(from, to, answers netip.Addr) bool) (int, error)
}

// Leases are the Leases of a Namespace.
type Leases interface {
	Get(ctx context.Context, name string) (*coordinationv1.Lease, error)
	Create(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error)
	Update(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// Options are what a Manager needs.
type Options struct {
	Node string
	// Egresses, Pools and Addresses list and watch Egresses, ExternalIPPools, and the Leases of
	// addresses.
	Egresses, Pools, Addresses cache.ListerWatcher
	// Groups watches the EgressGroups of the Node.
	Groups func(ctx context.Context) (Stream, error)
	Leases Leases
	// Nodes returns the Nodes of the cluster, trimmed; false before they are known.
	Nodes func() ([]any, bool)
	// Except are others to which Pods keep their address, and NoSNAT tells that it is everybody but
	// for Egresses.
	Except []netip.Prefix
	NoSNAT bool
	Kernel Kernel
	// Announce tells the hosts on a link where an address is now.
	Announce func(ctx context.Context, link string, a netip.Addr, asked []netip.Addr) error
	// Changed is called when Exits says something else.
	Changed func()
	Clock   clock.WithTicker
	Log     logr.Logger
}

// assigned is an address that the Node has.
type assigned struct {
	// until is when the kernel takes it, at the earliest.
	until time.Time
	// announced counts how often others learned of it.
	announced int
	// own tells that the Node has it by itself.
	own bool
}

// seen is what was read last of a Lease, and when that was new.
type seen struct {
	version string
	at      time.Time
	lasts   time.Duration
}

// pause is why an address is not taken again before some time.
type pause struct {
	until time.Time
	text  string
}

// election is what a Node knows of the holders of addresses, and of its own ones.
type election struct {
	// alive are Leases of Nodes as they were seen, vacant since when an address has no Node, taken
	// when this Node has taken one.
	alive  map[string]*seen
	vacant map[netip.Addr]time.Time
	taken  map[netip.Addr]time.Time
	// paused are addresses that the kernel did not take, has what it has.
	paused map[netip.Addr]pause
	has    map[netip.Addr]*assigned
	// own is the Lease of the Node, renewed when its last renewal began.
	own     *coordinationv1.Lease
	renewed time.Time
	turns   int
}

// Manager does the Node's part.
type Manager struct {
	Options
	egresses, pools, addresses cache.Store
	runs                       []cache.Controller
	wake                       chan struct{}
	groups                     groups

	// What follows is the business of Run alone.
	election election
	recent   map[string]time.Time
	// begun tells that there was a turn.
	begun bool
	// severing are the Pods whose connections are looked at, as they left before, for so many
	// turns.
	severing map[netip.Addr]nft.Exit
	severs   int
	failed   string

	mu    sync.Mutex
	exits []nft.Exit
	by    map[string]uint8
	known bool
}

// New returns a Manager, which does nothing before it runs.
func New(o Options) *Manager {
	m := &Manager{Options: o, wake: make(chan struct{}, 1), recent: map[string]time.Time{}, election: election{
		alive: map[string]*seen{}, vacant: map[netip.Addr]time.Time{}, taken: map[netip.Addr]time.Time{}, paused: map[netip.Addr]pause{}, has: map[netip.Addr]*assigned{}}}
	changed := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { m.wakeUp() }, UpdateFunc: func(_, _ any) { m.wakeUp() }, DeleteFunc: func(any) { m.wakeUp() }}
	follow := func(kind runtime.Object, from cache.ListerWatcher) cache.Store {
		store, run := cache.NewInformerWithOptions(cache.InformerOptions{ObjectType: kind, Handler: changed, ListerWatcher: from})
		m.runs = append(m.runs, run)
		return store
	}
	m.egresses, m.pools, m.addresses = follow(&v1beta1.Egress{}, o.Egresses), follow(&v1beta1.ExternalIPPool{}, o.Pools), follow(&coordinationv1.Lease{}, o.Addresses)
	return m
}

func (m *Manager) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Exits are how Pods leave the cluster, sorted, the numbers of the other Nodes by which they do,
// and whether that is known.
func (m *Manager) Exits() ([]nft.Exit, map[string]uint8, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.exits, m.by, m.known
}

// Run does the Node's part until ctx ends. It leaves the addresses to the next run for a while.
func (m *Manager) Run(ctx context.Context) {
	if !m.served(ctx) {
		return
	}
	var following sync.WaitGroup
	defer following.Wait()
	for _, run := range m.runs {
		following.Go(func() { run.RunWithContext(ctx) })
	}
	following.Go(func() { m.followGroups(ctx) })
	following.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), m.informed) {
			m.wakeUp()
		}
	})
	turn := m.Clock.NewTicker(turnInterval)
	defer turn.Stop()
	for {
		ticked := false
		select {
		case <-ctx.Done():
			m.leaveFor(context.WithoutCancel(ctx))
			return
		case <-m.wake:
		case <-turn.C():
			ticked = true
		}
		if fault := recovered.Do(func() { m.turn(ctx, ticked) }); fault != nil {
			m.fail(fault)
		}
	}
}

// served waits for the cluster to have the kind Egress. While it has none, all is known.
func (m *Manager) served(ctx context.Context) bool {
	look := m.Clock.NewTicker(turnInterval)
	defer look.Stop()
	for next := m.Clock.Now(); ; {
		if now := m.Clock.Now(); !now.Before(next) {
			_, err := cache.ToListerWatcherWithContext(m.Egresses).ListWithContext(ctx, metav1.ListOptions{Limit: 1})
			switch {
			case err == nil:
				return true
			case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
				m.publish(nil, nil, true)
				next = now.Add(missingInterval)
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-look.C():
		}
	}
}

// publish says how Pods leave now.
func (m *Manager) publish(exits []nft.Exit, by map[string]uint8, known bool) {
	m.mu.Lock()
	same := m.known == known && slices.Equal(m.exits, exits) && maps.Equal(m.by, by)
	m.exits, m.by, m.known = exits, by, known
	m.mu.Unlock()
	if !same {
		m.Changed()
	}
}

func (m *Manager) fail(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != m.failed && text != "" {
		m.Log.Info("The addresses of Egresses are not as they are to be, trying again", "reason", text)
	}
	m.failed = text
}

// informed reports whether everything was read once.
func (m *Manager) informed() bool {
	_, known := m.Nodes()
	return known && !slices.ContainsFunc(m.runs, func(c cache.Controller) bool { return !c.HasSynced() })
}

// turn does what is to be done now. Only one that is ticked renews, and looks at others.
func (m *Manager) turn(ctx context.Context, ticked bool) {
	if !m.informed() {
		return
	}
	list, _ := m.Nodes()
	// What a former run has left in the kernel may have a moment to live.
	ticked, m.begun = ticked || !m.begun, true
	egresses := m.sorted()
	if len(egresses) == 0 && len(m.election.has) == 0 {
		m.change(nil, nil, true, list)
		m.sever(list, ticked)
		return
	}
	if ticked {
		m.election.turns++
	}
	there, err := m.Kernel.Assigned()
	if err != nil {
		m.fail(err)
		return
	}
	m.fail(m.hold(ctx, ticked, m.wishes(egresses, list, there), there, list))
	m.change(egresses, m.holders(), m.groups.known() || len(egresses) == 0, list)
	m.sever(list, ticked)
}

// sorted are the Egresses, the oldest first: of two that apply to one Pod the older one counts.
func (m *Manager) sorted() []*v1beta1.Egress {
	var out []*v1beta1.Egress
	for _, o := range m.egresses.List() {
		if e, ok := o.(*v1beta1.Egress); ok {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *v1beta1.Egress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (m *Manager) pool(name string) *v1beta1.ExternalIPPool {
	o, _, _ := m.pools.GetByKey(name)
	p, _ := o.(*v1beta1.ExternalIPPool)
	return p
}

// wishes are the addresses that Egresses want, and the Nodes that may have them.
func (m *Manager) wishes(egresses []*v1beta1.Egress, list []any, there map[netip.Addr]int) map[netip.Addr]wish {
	out, taken := map[netip.Addr]wish{}, network.AddressesOf(nodes.Of(list))
	for _, e := range egresses {
		for _, x := range e.Spec.Addresses() {
			a := x.Address
			if _, done := out[a]; done || !a.IsValid() {
				continue
			}
			_, here := there[a]
			switch pool := m.pool(x.Pool); {
			case x.Pool == "" && here:
				out[a] = wish{eligible: true, ranked: []string{m.Node}, own: true}
			case x.Pool == "":
				out[a] = wish{own: true}
			case pool != nil && e.Status.Has(v1beta1.IPAllocated) && !slices.Contains(taken, netip.PrefixFrom(a, a.BitLen())):
				out[a] = wishOf(m.Node, a, &pool.Spec.NodeSelector, list)
			}
		}
	}
	return out
}

// lease is that of an address; nil for none.
func (m *Manager) lease(a netip.Addr) *coordinationv1.Lease {
	for _, o := range m.addresses.List() {
		if l, ok := o.(*coordinationv1.Lease); ok && l.Name == LeaseOf(a) {
			return l
		}
	}
	return nil
}

// holder is the Node that has an address by its Lease. What this Node has just taken counts though
// the watch does not say so yet.
func (m *Manager) holder(a netip.Addr) string {
	if at, ok := m.election.taken[a]; ok && m.Clock.Since(at) < 3*turnInterval {
		return m.Node
	}
	if l := m.lease(a); l != nil && l.Spec.HolderIdentity != nil {
		return *l.Spec.HolderIdentity
	}
	return ""
}

// hold has the addresses that the Node is to have, and no others.
func (m *Manager) hold(ctx context.Context, ticked bool, wishes map[netip.Addr]wish, there map[netip.Addr]int, list []any) error {
	now := m.Clock.Now()
	var errs []error
	keeps, wants := map[netip.Addr]wish{}, map[netip.Addr]wish{}
	mine := 0
	for a := range wishes {
		if m.holder(a) == m.Node {
			mine++
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(wishes), netip.Addr.Compare) {
		w := wishes[a]
		s := standing{holder: m.holder(a)}
		if s.holder == "" {
			if m.election.vacant[a].IsZero() {
				m.election.vacant[a] = now
			}
			s.silent = now.Sub(m.election.vacant[a])
		} else {
			delete(m.election.vacant, a)
			if s.holder != m.Node && slices.Contains(w.ranked, m.Node) && ticked && (watches(m.Node, w.ranked) || m.election.turns%idleTurns == 0) {
				errs = append(errs, m.look(ctx, s.holder))
			}
			if x := m.election.alive[s.holder]; x != nil {
				s.silent, s.lasts = now.Sub(x.at), x.lasts
			} else {
				s.lasts = leaseSeconds * time.Second
			}
		}
		if seconds, here := there[a]; s.holder == m.Node && m.election.has[a] == nil && here && (w.own || seconds > 0) {
			// A former run has left it: the kernel has it no longer than it may.
			m.election.has[a] = &assigned{until: now.Add(time.Duration(seconds) * time.Second), announced: announcements, own: w.own}
		}
		switch choose(m.Node, w, s, mine >= maxAddresses) {
		case keep:
			keeps[a] = w
		case take:
			if p := m.election.paused[a]; ticked && now.After(p.until) {
				wants[a], mine = w, mine+1
			}
		case giveUp:
			errs = append(errs, m.release(ctx, a, w.own, ""))
		case leave:
			delete(m.election.has, a)
			if there[a] > 0 && !w.own { // another Node has it, or none
				errs = append(errs, m.Kernel.Drop(a))
			}
		}
	}
	for a, h := range m.election.has { // no Egress wants it any more
		if _, wanted := wishes[a]; !wanted {
			errs = append(errs, m.release(ctx, a, h.own, ""))
		}
	}
	if !ticked || len(keeps)+len(wants) == 0 {
		return errors.Join(errs...)
	}
	if err := m.renew(ctx, leaseSeconds); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, a := range slices.SortedFunc(maps.Keys(keeps), netip.Addr.Compare) {
		errs = append(errs, m.keep(ctx, a, keeps[a], list))
	}
	for _, a := range slices.SortedFunc(maps.Keys(wants), netip.Addr.Compare) {
		errs = append(errs, m.take(ctx, a, wants[a], list))
	}
	return errors.Join(errs...)
}

// look sees whether a Node that has an address lives.
func (m *Manager) look(ctx context.Context, node string) error {
	x := m.election.alive[node]
	if x != nil && x.at.Equal(m.Clock.Now()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	l, err := m.Leases.Get(ctx, NodeLeaseOf(node))
	if err != nil && !apierrors.IsNotFound(err) {
		delete(m.election.alive, node) // nothing is known of it: it may live
		return fmt.Errorf("whether Node %s lives is not known: %w", node, err)
	}
	version, lasts := "", leaseSeconds*time.Second
	if err == nil {
		version = l.ResourceVersion
		if s := l.Spec.LeaseDurationSeconds; s != nil {
			lasts = time.Duration(min(max(*s, leaseSeconds), maxLeaseSeconds)) * time.Second
		}
	}
	if x == nil || x.version != version {
		m.election.alive[node] = &seen{version: version, at: m.Clock.Now(), lasts: lasts}
	}
	return nil
}

// renew says that the Node lives.
func (m *Manager) renew(ctx context.Context, seconds int32) error {
	start := m.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	name := NodeLeaseOf(m.Node)
	var err error
	if m.election.own == nil {
		if m.election.own, err = m.Leases.Get(ctx, name); apierrors.IsNotFound(err) {
			m.election.own, err = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
		}
	}
	if err == nil {
		next := m.election.own.DeepCopy()
		at := metav1.NewMicroTime(start)
		next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds, next.Spec.RenewTime = &m.Node, &seconds, &at
		write := m.Leases.Update
		if next.ResourceVersion == "" {
			write = m.Leases.Create
		}
		m.election.own, err = write(ctx, next)
	}
	if err != nil {
		m.election.own = nil
		return fmt.Errorf("tell that this Node has addresses of Egresses: %w", err)
	}
	m.election.renewed = start
	return nil
}

// keep prolongs what the Node has. What it may have lost meanwhile it has only if the API server
// says so, after the renewal.
func (m *Manager) keep(ctx context.Context, a netip.Addr, w wish, list []any) error {
	if h := m.election.has[a]; h == nil || !m.Clock.Now().Before(h.until) {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		l, err := m.Leases.Get(ctx, LeaseOf(a))
		if err != nil {
			return fmt.Errorf("the holder of the address %s is unknown: %w", a, err)
		}
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != m.Node {
			delete(m.election.taken, a)
			return nil
		}
	}
	return m.give(ctx, a, w, list, kernelSeconds)
}

// give lets the kernel have an address for some seconds from the last renewal on.
func (m *Manager) give(ctx context.Context, a netip.Addr, w wish, list []any, seconds int) error {
	h := m.election.has[a]
	if h == nil {
		h = &assigned{}
	}
	if w.own {
		h.until, h.own = m.election.renewed.Add(time.Duration(seconds)*time.Second), true
		m.election.has[a] = h
		return nil
	}
	link, err := m.Kernel.Hold(a, m.address(a.Is6(), list), seconds)
	if err != nil {
		m.election.paused[a] = pause{m.Clock.Now().Add(problemPause), err.Error()}
		return errors.Join(err, m.release(ctx, a, false, err.Error()))
	}
	h.until = m.election.renewed.Add(time.Duration(seconds) * time.Second)
	m.election.has[a] = h
	if h.announced < announcements {
		h.announced++
		var asked []netip.Addr
		if a.Is6() {
			asked, err = m.Kernel.Unlearn(link, true)
		}
		if err := errors.Join(err, m.Announce(ctx, link, a, asked)); err != nil {
			m.Log.V(1).Info("Not all neighbours were told where an address is now", "address", a, "reason", err.Error())
		}
	}
	return nil
}

// address is that of the Node, of a family if it has one.
func (m *Manager) address(six bool, list []any) netip.Addr {
	var out netip.Addr
	for _, n := range nodes.Of(list) {
		if n.Name != m.Node {
			continue
		}
		for _, a := range n.Addresses {
			if a.Is6() == six {
				return a
			}
			out = a
		}
	}
	return out
}

// take makes the Node the one that has an address, unless another one was faster, or the former one
// lives after all.
func (m *Manager) take(ctx context.Context, a netip.Addr, w wish, list []any) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	l, was := m.lease(a), ""
	if l == nil {
		l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseOf(a), Labels: map[string]string{LabelAddress: label(a)}}}
	} else if l.Spec.HolderIdentity != nil {
		was = *l.Spec.HolderIdentity
	}
	next := l.DeepCopy()
	at := metav1.NewMicroTime(m.Clock.Now())
	next.Spec.HolderIdentity, next.Spec.AcquireTime = &m.Node, &at
	times := int32(1)
	if next.Spec.LeaseTransitions != nil {
		times += *next.Spec.LeaseTransitions
	}
	next.Spec.LeaseTransitions = &times
	delete(next.Annotations, AnnotationProblem)
	write := m.Leases.Update
	if next.ResourceVersion == "" {
		write = m.Leases.Create
	}
	got, err := write(ctx, next)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take the address %s: %w", a, err)
	}
	_ = m.addresses.Update(got)
	m.election.taken[a] = m.Clock.Now()
	if x := m.election.alive[was]; was != "" {
		now, err := m.Leases.Get(ctx, NodeLeaseOf(was))
		if x == nil || err != nil && !apierrors.IsNotFound(err) || err == nil && now.ResourceVersion != x.version {
			return errors.Join(fmt.Errorf("node %s, which has the address %s, lives", was, a), m.release(ctx, a, w.own, ""))
		}
	}
	m.Log.Info("This Node has the address of an Egress now", "address", a, "before", was)
	return m.give(ctx, a, w, list, kernelSeconds)
}

// release gives an address up, for a reason that others are to see. The kernel has it no more when
// others may take it.
func (m *Manager) release(ctx context.Context, a netip.Addr, own bool, problem string) error {
	if !own {
		if err := m.Kernel.Drop(a); err != nil {
			return err
		}
	}
	delete(m.election.has, a)
	delete(m.election.taken, a)
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	l, err := m.Leases.Get(ctx, LeaseOf(a))
	if apierrors.IsNotFound(err) || err == nil && (l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != m.Node) {
		return nil
	}
	if err == nil {
		l = l.DeepCopy()
		none := ""
		l.Spec.HolderIdentity = &none
		if problem != "" {
			if l.Annotations == nil {
				l.Annotations = map[string]string{}
			}
			l.Annotations[AnnotationProblem] = "Node " + m.Node + ": " + problem
		}
		var got *coordinationv1.Lease
		if got, err = m.Leases.Update(ctx, l); err == nil {
			_ = m.addresses.Update(got)
		}
	}
	if err != nil {
		return fmt.Errorf("give up the address %s: %w", a, err)
	}
	m.Log.Info("This Node has given up the address of an Egress", "address", a)
	return nil
}

// leaveFor lets the next run find the addresses here.
func (m *Manager) leaveFor(ctx context.Context) {
	if len(m.election.has) == 0 || m.renew(ctx, awaySeconds) != nil {
		return
	}
	list, _ := m.Nodes()
	for a, h := range m.election.has {
		if m.election.renewed.Before(h.until) && m.holder(a) == m.Node {
			if !h.own {
				_, _ = m.Kernel.Hold(a, m.address(a.Is6(), list), awayKernelSeconds)
			}
		}
	}
}

// holders are the Nodes that have addresses. This one has those that its kernel has.
func (m *Manager) holders() map[netip.Addr]string {
	out, now := map[netip.Addr]string{}, m.Clock.Now()
	for _, o := range m.addresses.List() {
		l, ok := o.(*coordinationv1.Lease)
		if !ok || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || *l.Spec.HolderIdentity == m.Node {
			continue
		}
		for _, e := range m.sorted() {
			for _, x := range e.Spec.Addresses() {
				if x.Address.IsValid() && LeaseOf(x.Address) == l.Name {
					out[x.Address] = *l.Spec.HolderIdentity
				}
			}
		}
	}
	for a, h := range m.election.has {
		if now.Before(h.until) {
			out[a] = m.Node
		}
	}
	return out
}

// change says how Pods leave now.
func (m *Manager) change(egresses []*v1beta1.Egress, holders map[netip.Addr]string, known bool, list []any) {
	if !known {
		return // as it was
	}
	now := m.Clock.Now()
	local := m.local(list)
	here := func(a netip.Addr) bool {
		return slices.ContainsFunc(local, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	for _, node := range holders {
		if node != m.Node {
			m.recent[node] = now
		}
	}
	maps.DeleteFunc(m.recent, func(_ string, at time.Time) bool { return now.Sub(at) > former })
	by := network.NumberExits(slices.Collect(maps.Keys(m.recent)))
	of := map[netip.Addr]nft.Exit{}
	for _, e := range egresses {
		from, drops := e.Spec.Families(m.pool)
		for _, pod := range m.groups.get(e.Name) {
			if _, done := of[pod]; done {
				continue
			}
			a, exit := from[pod.Is6()], nft.Exit{Pod: pod}
			switch node := holders[a]; {
			case !a.IsValid() && !drops[pod.Is6()]:
				continue
			case node == m.Node:
				exit.From = a
			case node != "" && here(pod):
				exit.By = by[node]
			}
			of[pod] = exit
		}
	}
	exits := slices.SortedFunc(maps.Values(of), func(a, b nft.Exit) int { return a.Pod.Compare(b.Pod) })
	m.mu.Lock()
	before, first := m.exits, !m.known
	m.mu.Unlock()
	if first || !slices.Equal(before, exits) {
		if m.severing == nil {
			m.severing = map[netip.Addr]nft.Exit{}
		}
		was := map[netip.Addr]nft.Exit{}
		for _, e := range before {
			was[e.Pod] = e
			if of[e.Pod] != e {
				m.severing[e.Pod] = e
			}
		}
		for pod, e := range of {
			if was[pod] != e {
				m.severing[pod] = was[pod]
			}
		}
		m.severs = severTurns
	}
	m.publish(exits, by, true)
}

// local are the ranges of the Node's own Pods.
func (m *Manager) local(list []any) (out []netip.Prefix) {
	for _, n := range nodes.Of(list) {
		if n.Name == m.Node {
			out = n.PodCIDRs
		}
	}
	return out
}

// sever ends connections that leave otherwise than they are to.
func (m *Manager) sever(list []any, ticked bool) {
	if m.severs == 0 || !ticked {
		return
	}
	all := nodes.Of(list)
	near := slices.Concat(network.AddressesOf(all), m.Except)
	for _, n := range all {
		near = append(near, n.PodCIDRs...)
	}
	exits, _, _ := m.Exits()
	of, pods := map[netip.Addr]nft.Exit{}, map[netip.Addr]bool{}
	for _, e := range exits {
		of[e.Pod] = e
	}
	for pod := range m.severing {
		pods[pod] = true
	}
	n, err := m.Kernel.Sever(pods, func(from, to, answers netip.Addr) bool {
		if to.IsLinkLocalUnicast() || to.IsMulticast() || to.IsLoopback() || slices.ContainsFunc(near, func(p netip.Prefix) bool { return p.Contains(to) }) {
			return false
		}
		switch e, applies := of[from]; {
		case !applies:
			return answers == from && !m.NoSNAT || m.severing[from].From.IsValid() && answers == m.severing[from].From
		case e.From.IsValid():
			return answers != e.From
		case e.By != 0:
			return answers != from
		}
		return true
	})
	if m.severs--; m.severs == 0 {
		m.severing = nil
	}
	if err != nil {
		m.Log.Info("Not all connections were ended that leave with a former address", "reason", err.Error())
	}
	if n > 0 {
		m.Log.Info("Connections were ended that left with a former address", "number", n)
	}
}
