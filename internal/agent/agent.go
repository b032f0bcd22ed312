package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/traffic"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/program"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// lookInterval is how often it is looked whether the table is as it was left, and how soon what
	// failed is tried again.
	lookInterval = 500 * time.Millisecond
	// auditInterval is how often a table that nobody else can change is read nevertheless.
	auditInterval = time.Minute
	// cutAgain is how long after a change, or a failure, connections are judged again.
	cutAgain = time.Second
	// infoInterval is how often the agent tells that it lives, and looks up the addresses of
	// failsafe flows; infoAgain how soon it tells again that its state has changed, or what failed,
	// and infoLimit how long that may take.
	infoInterval = time.Minute
	infoAgain    = 2 * time.Second
	infoLimit    = 10 * time.Second
	// largeWrite is from how many messages on memory is given back after a transaction, and
	// trimAfter how long after it, when all that belongs to it is done: the next one of the kind
	// may never come. After the state was written it is given back as well: that decodes all that
	// is known, once.
	largeWrite = 5000
	trimAfter  = 10 * time.Second
	// giveBackInterval is how often pages of the program are given back: with each that is touched
	// the system maps its surroundings.
	giveBackInterval = 10 * time.Second
	// recordWait is how long a change waits at most until it is on the disk.
	recordWait = time.Second
	// mostAhead is by how many revisions what is kept may be newer than the rules of the kernel:
	// each is a change that could not be written there.
	mostAhead = 1000
	// mostTold is of how many Pods the status of a policy tells.
	mostTold = 3
)

// ErrNoInfo: the controller has not made the object in which an agent tells about itself.
var ErrNoInfo = errors.New("there is no AntreaAgentInfo of this host")

// Table is where programs go; a kernel.Table.
type Table interface {
	Apply(want *nft.Program) (kernel.Written, error)
	// Forget makes the next Apply read what is there.
	Forget()
	// Revision is that of the program that is there; 0 if it has none, or if no table is there.
	Revision() (n uint64, there bool, err error)
	// Generation changes with every change by anybody.
	Generation() (uint32, error)
	// Owned reports whether nobody else can change the table.
	Owned() bool
	// Lacks are the features that the kernel was found to lack.
	Lacks() []kernel.Feature
	// Counters returns what the rules of chains, or of all, have counted.
	Counters(chains ...string) (map[string][]kernel.Counter, error)
	// Foreign returns the filters of others on the way of the host's traffic.
	Foreign() ([]kernel.Filter, error)
	// KubeProxy returns by what kube-proxy leads to Services; empty if it does not.
	KubeProxy() (string, error)
	// ForgetClients forgets which clients stay with backends of Services that are gone.
	ForgetClients(now *nft.Balanced) (int, error)
}

// Connections are those that the host has.
type Connections interface {
	// Cut ends those that the program does not allow, and lets those live again that it does. It
	// returns how many it has ended.
	Cut(ctx context.Context, p *nft.Program) (int, error)
	// Peers are the other ends of the connections that the host has.
	Peers() (map[netip.Addr]bool, error)
	// ForgetDatagrams lets those of UDP be forgotten that go to backends of Services that are gone.
	ForgetDatagrams(former, now *nft.Balanced) (int, error)
}

// Reports takes the status of policies; an enforcer.Reporter does.
type Reports interface {
	Report(ctx context.Context, s *v1beta2.NetworkPolicyStatus) error
}

// Options are what an Agent needs. Pods, Services, Connections, Failsafe, Names, PacketLog,
// Traffic, Probe and Info may be nil.
type Options struct {
	// Key is that of the ExternalNode, NAMESPACE/NAME, or the name of the Node.
	Key string
	// Pods are those of the Node. Nil on a VM.
	Pods *Pods
	// Network makes the network of the Node, or only encrypts what is between Nodes. Nil where
	// another CNI plugin makes it, and nothing is encrypted.
	Network *Network
	// Balancing leads connections to ports of the Node that Pods want, in a network of ours, and to
	// Services, unless kube-proxy does that.
	Balancing *Balancing
	// Services are those of the cluster of the Node. Nil where none are known; policies that have
	// some as peers are refused there.
	Services *Services
	// Computed reports whether the controller has taken a Pod into account; nil if that cannot be
	// told. New Pods of the namespaces Essential do not wait for a controller that does not answer.
	Computed  func(ctx context.Context, namespace, name string) (bool, error)
	Essential []string
	// Plugin says what is wrong with the CNI plugin, which tells of new Pods, and Unchain leaves it
	// out of the list of plugins from now on; both are nil without one.
	Plugin   func() string
	Unchain  func()
	Follower enforcer.Follower
	Reports  Reports
	Table    Table
	// Connections makes established connections obey, unless KeepEstablished.
	Connections     Connections
	KeepEstablished bool
	// Forwarded judges what only passes through the host, which is no Node, as well.
	Forwarded bool
	Store     *Store
	// Failsafe returns the flows that no policy may cut. While it fails, those that it returned
	// last count.
	Failsafe func(ctx context.Context) ([]nft.Failsafe, error)
	// Names knows the addresses of domain names; without it policies that name some are refused.
	Names *Names
	// PacketLog is what writes what policies want logged.
	PacketLog *PacketLog
	// Traffic records connections; nil records none. With it, everything that is denied is logged
	// for it, whether a policy wants that or not.
	Traffic *traffic.Recorder
	// Probe succeeds while the owner can do with the host what he must. A change with which it
	// fails for ConfirmWithin (0: a minute) is taken back.
	Probe         func(ctx context.Context) error
	ConfirmWithin time.Duration
	// Yield tells the controller that from now on no other directions are isolated. It is false,
	// and nothing is told, if in one of the others the cloud around the host lets everything in, or
	// is about to. Nil means that no cloud ever does.
	Yield func(ctx context.Context, isolates Isolated) (bool, error)
	// Statistics takes what was counted since the last time; nil counts for nobody.
	Statistics func(ctx context.Context, s *v1beta2.NodeStatsSummary) error
	// Settings reads settings of the kernel, and Skew by how much the clock of the host is before
	// the controller's, as far as that is known. Both may be nil.
	Settings Settings
	Skew     func() time.Duration
	// Info tells the controller about the agent. ErrNoInfo is its error while there is nothing that
	// could be filled in.
	Info  func(ctx context.Context, s *Status) error
	Clock clock.WithTicker
	Log   logr.Logger
}

// Agent is the agent of a host.
type Agent struct {
	Options
	mirror   *enforcer.Mirror
	compiler nft.Compiler
	wake     chan struct{}
	metrics  *Metrics

	// The rest up to mu is of the goroutine of Run.

	// wanted is what is to be enforced: received, or loaded; nil before either.
	wanted *enforcer.Computed
	// version is that of the mirror of which wanted is; 0 if it was loaded.
	version uint64
	// good are the policies that were expressed last, as they were then.
	good map[string]*v1beta2.NetworkPolicy
	// compiled is what a program was made of last, with the groups that these policies name.
	compiled enforcer.Computed
	failsafe []nft.Failsafe
	loaded   bool
	// bare tells that there was nothing when the agent started, neither kept nor in the kernel.
	bare    bool
	program *nft.Program
	// revision is that of the program, or before there is one of what was loaded.
	revision  uint64
	published map[string]v1beta2.NetworkPolicyNodeStatus
	// reported is what published was made of.
	reported reported
	begun    int
	// refused is why the agent must end: another one guards the host.
	refused error
	// dirty tells that the table must be written, or that it is not known what it holds.
	dirty      bool
	generation uint32
	audited    time.Time
	// surveyed is the generation at which the filters of others were read; unsurveyed tells that
	// they must be read in any case.
	surveyed   uint32
	unsurveyed bool
	// filters are those of others that the log has told, without their numbers of rules.
	filters []kernel.Filter
	// applied is the release that the program is made for.
	applied time.Time
	// effective is what the program is made of, released or not.
	effective *enforcer.Computed
	probing   probing
	telling   telling
	asking    asking
	// tried is the version that the last trial was about; 0 to try the same one again.
	tried uint64
	// names is the version of what is known of names that the program is made with.
	names uint64
	// pods is the version of the Pods of the Node that the program is made with.
	pods uint64
	// services is where Services are reached that the program is made with.
	services map[string][]nft.Frontend
	// sealing encrypts what is between Nodes where another plugin makes the network; nil for not.
	sealing *Network
	// leads is where connections to Services go that the program is made with.
	leads    *nft.Balanced
	counting counting
	settings settings
	// heed is what is known of the cloud around the host.
	heed heed
	// cutAt is when connections are to be judged again, zero for not at all, and lastCut when they
	// were judged last.
	cutAt, lastCut time.Time
	// trimAt is when memory is given back, zero for not at all.
	trimAt time.Time
	// gaveBack is when pages of the program were given back.
	gaveBack time.Time
	// saving is what writes to the disk meanwhile.
	saving saving

	mu       sync.Mutex
	released time.Time
	// heard is when something was heard that is not in force yet; zero for nothing.
	heard  time.Time
	status Status
	judge  *nft.Program
	// judgeSince is since when that is in force.
	judgeSince time.Time
	// logs are the rules that log, formerLogs those before the last change.
	logs, formerLogs map[string]nft.Origin
}

// New returns an agent that does nothing before Run.
func New(o Options) *Agent {
	a := &Agent{Options: o, wake: make(chan struct{}, 1), good: map[string]*v1beta2.NetworkPolicy{}, published: map[string]v1beta2.NetworkPolicyNodeStatus{}}
	if o.Network != nil && o.Pods != nil {
		o.Pods.network, o.Pods.makes = o.Network.current, o.Network.makes()
		o.Network.changed, o.Network.pods, o.Network.bandwidth.of = o.Pods.poke, o.Pods.addressesInAPI, o.Pods.shapes
		if o.Network.makes() {
			o.Pods.shaped = o.Network.poke
		}
	}
	if o.Network != nil && !o.Network.makes() {
		a.sealing, a.Network = o.Network, nil
	}
	a.compiler.LogDenied, a.compiler.Forwarded = o.Traffic != nil, o.Forwarded
	if o.Balancing != nil && o.Pods != nil {
		o.Balancing.changed, o.Balancing.hostPorts = a.poke, o.Pods.hostPorts
		o.Pods.others = o.Balancing.poke
	}
	a.metrics = newMetrics(a)
	a.mirror = o.Follower.Mirror(o.Key, a.hear)
	a.saving.results, a.asking.turn = make(chan error, 1), make(chan struct{}, 1)
	a.probing.results, a.telling.results, a.counting.results = make(chan probed, 1), make(chan told, 1), make(chan counted, 1)
	a.status = Status{Key: o.Key, State: StateStarting, JudgesForwarded: o.Forwarded}
	return a
}

func (a *Agent) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run guards the host until ctx ends. What is in force then stays in force. It fails if another
// agent guards the host.
func (a *Agent) Run(ctx context.Context) error {
	recovered.Everywhere()
	a.restore(ctx)
	if a.refused != nil {
		return a.refused
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	running.Go(func() { a.mirror.Run(ctx) })
	defer func() { end(); running.Wait() }()
	look, info := a.Clock.NewTicker(lookInterval), a.Clock.NewTicker(infoInterval)
	defer look.Stop()
	defer info.Stop()
	a.surveyNow()
	a.readSettings()
	var names chan struct{} // nothing comes from nil
	if a.Names != nil {
		names = a.Names.news
	}
	var pods chan struct{}
	if a.Pods != nil {
		pods = a.Pods.news
		running.Go(func() { a.Pods.Run(ctx) })
	}
	for _, n := range []*Network{a.Network, a.sealing} {
		if n != nil {
			running.Go(func() { n.Run(ctx) })
		}
	}
	if a.Balancing != nil {
		running.Go(func() { a.Balancing.Run(logr.NewContext(ctx, a.Log)) })
	}
	var services chan struct{}
	if a.Services != nil {
		services = a.Services.news
		running.Go(func() { a.Services.Run(ctx) })
	}
	turn := func() (over bool) {
		select {
		case <-ctx.Done():
			a.save(true)
			return true
		case err := <-a.saving.results:
			a.wasSaved(err)
		case <-a.wake:
		case <-names:
		case <-services:
		case <-pods:
			a.Pods.refresh()
		case <-look.C():
			a.look()
			a.trim()
			a.saveSoon()
			if a.Pods != nil {
				a.Pods.settle()
			}
			a.forgetNames()
			a.survey()
			a.readSettings()
			a.probe(ctx)
		case r := <-a.probing.results:
			a.answered(r)
		case <-info.C():
			a.lookUp(ctx)
			a.surveyNow()
			if a.cutAt.IsZero() { // conntrack may have forgotten connections, or others made it forget
				a.cutAt = a.Clock.Now()
			}
			if a.trimAt.IsZero() { // what little things leave in a minute
				a.trimAt = a.Clock.Now()
			}
			if a.Pods != nil { // how their packets go may have changed
				a.Pods.age()
				a.Pods.refresh()
			}
		case t := <-a.telling.results:
			a.wasTold(t)
		case c := <-a.counting.results:
			a.wasCounted(c)
		}
		a.step(ctx)
		if a.refused != nil {
			return true
		}
		a.tell(ctx)
		a.sendCounts(ctx)
		return false
	}
	return a.forever(ctx, turn)
}

// The pauses of forever.
const (
	faultPause     = time.Second
	longFaultPause = time.Minute
)

// forever takes turns until one says that it is over. After one that panics everything is done
// again, after a pause that grows with the panics in a row; what is in force stays meanwhile.
func (a *Agent) forever(ctx context.Context, turn func() (over bool)) error {
	for pause := time.Duration(0); ; {
		over := false
		fault := recovered.Do(func() { over = turn() })
		if over {
			return a.refused
		}
		if fault == nil {
			pause = 0
			continue
		}
		pause = min(max(2*pause, faultPause), longFaultPause)
		a.Log.Error(fault, "A panic was recovered, trying again", "in", pause.String(), "stack", recovered.StackOf(fault))
		a.change(func(s *Status) { s.Error = fault.Error() })
		a.dirty = true
		_ = recovered.Do(func() { a.tell(ctx) })
		select {
		case <-ctx.Done():
			return nil
		case <-a.Clock.After(pause):
			a.poke()
		}
	}
}

// Load enforces what was kept, once, and returns. Hosts do this before there is a network.
func (a *Agent) Load(ctx context.Context) error {
	a.restore(ctx)
	if a.saving.running {
		a.wasSaved(<-a.saving.results)
	}
	if a.refused != nil {
		return a.refused
	}
	return errors.Join(a.loadError(), a.applyError())
}

func (a *Agent) loadError() error {
	if e := a.Status().StoreError; e != "" {
		return errors.New(e)
	}
	return nil
}

func (a *Agent) applyError() error {
	if e := a.Status().Error; e != "" {
		return errors.New(e)
	}
	return nil
}

// restore enforces what was kept, if anything was.
func (a *Agent) restore(ctx context.Context) {
	a.lookUp(ctx)
	kept, err := a.Store.Load()
	if err != nil {
		a.Log.Error(err, "What was enforced last cannot be loaded")
		a.change(func(s *Status) { s.StoreError = err.Error() })
		return
	}
	inKernel, there, err := a.Table.Revision()
	if errors.Is(err, kernel.ErrOwned) {
		a.refused = err
		return
	}
	if err != nil {
		a.Log.Error(err, "It is not known which revision the kernel has")
	}
	a.Store.Reached(inKernel)
	a.bare = err == nil && !there && (kept == nil || kept.Computed == nil)
	if kept == nil {
		return
	}
	if kept.Key != a.Key {
		a.Store.Discard()
		a.change(func(s *Status) { s.StoreError = "what is kept was computed for " + kept.Key + " and is not enforced" })
		return
	}
	a.mu.Lock()
	a.released = kept.ReleasedUntil
	a.mu.Unlock()
	if a.Names != nil {
		a.Names.restore(kept.Names)
	}
	if a.Pods != nil {
		a.Pods.restore(kept)
	}
	if a.Network != nil {
		a.Network.restore(kept.Network)
	}
	if a.Services != nil {
		a.Services.restore(kept.Services)
	}
	if a.Failsafe != nil && a.Status().FailsafeError != "" {
		a.failsafe = former(a.failsafe, kept.Failsafe)
		a.change(func(s *Status) { s.Failsafe = a.failsafe })
	}
	if why := apart(kept.Revision, inKernel); there && why != "" {
		a.Log.Info("What is kept on disk is not enforced, and the rules in the kernel stay until the controller answers", "reason", why)
		a.change(func(s *Status) {
			s.StoreError = why + ", so it is not enforced, and the rules in the kernel stay until the controller answers"
		})
		return
	}
	if kept.Computed == nil {
		return
	}
	a.wanted, a.dirty, a.loaded, a.revision = kept.Computed, true, true, kept.Revision
	a.step(ctx)
}

// apart says why what is kept does not follow the rules in the kernel; nothing if it does. Where
// one of the two has no revision, an agent has written it that knew none.
func apart(kept, inKernel uint64) string {
	switch {
	case inKernel == 0:
	case kept < inKernel:
		return fmt.Sprintf("what is kept is of revision %d, older than the rules in the kernel, which are of revision %d", kept, inKernel)
	case kept-inKernel > mostAhead:
		return fmt.Sprintf("what is kept is of revision %d, which cannot be: the rules in the kernel are of revision %d", kept, inKernel)
	}
	return ""
}

// record keeps what is to be in force, on the disk before it is in the kernel, and returns its
// revision. What cannot be written is enforced nevertheless.
func (a *Agent) record(kept Kept) uint64 {
	revision, err := a.Store.Record(kept, a.Clock.After(recordWait))
	if err != nil {
		a.Log.Error(err, "What is enforced next is not on the disk before; if the host loses power now, what was enforced before comes back")
		a.change(func(s *Status) { s.StoreError = err.Error() })
	}
	return revision
}

// trim gives memory back when it is time for that.
func (a *Agent) trim() {
	now := a.Clock.Now()
	switch {
	case !a.trimAt.IsZero() && !now.Before(a.trimAt):
		a.trimAt, a.gaveBack = time.Time{}, now
		go func() { // which takes a while
			debug.FreeOSMemory()
			program.GiveBack()
		}()
	case now.Sub(a.gaveBack).Abs() >= giveBackInterval:
		a.gaveBack = now
		go program.GiveBack()
	}
}

// look finds out whether somebody else has changed something.
func (a *Agent) look() {
	if a.program == nil || a.dirty {
		return
	}
	now := a.Clock.Now()
	generation, err := a.Table.Generation()
	changed := err != nil || generation != a.generation
	if changed && (!a.Table.Owned() || now.Sub(a.audited) >= auditInterval) {
		a.Table.Forget()
		a.dirty = true
	}
}

// generationAfter notes the generation after a write of our own, which is one change. What others
// have changed at the same moment is still to be looked at.
func (a *Agent) generationAfter(w kernel.Written) {
	before := a.generation
	if w.Messages > 0 {
		before++
	}
	now, err := a.Table.Generation()
	if a.generation = now; err != nil {
		a.dirty = true
	}
	a.unsurveyed = a.unsurveyed || err != nil || now != before
}

// survey reads the filters of others, if somebody else has changed something since, or reading them
// has failed.
func (a *Agent) survey() {
	if generation, err := a.Table.Generation(); err == nil && !a.unsurveyed && (generation == a.generation || generation == a.surveyed) {
		return
	} else if err == nil {
		a.surveyed = generation
	}
	a.surveyNow()
}

func (a *Agent) surveyNow() {
	if a.Balancing != nil && a.Balancing.leads() {
		beside, err := a.Table.KubeProxy()
		if err == nil && beside == "" && a.Pods != nil {
			if node, _ := a.Pods.current(); node != nil && node.IPVS {
				beside = "mode IPVS"
			}
		}
		a.Balancing.isBeside(beside, err)
	}
	found, err := a.Table.Foreign()
	a.unsurveyed = err != nil
	if err != nil {
		a.change(func(s *Status) { s.ForeignError = textOf(err) })
		return
	}
	var texts []string
	for i := range found {
		texts = append(texts, found[i].String())
		found[i].Rules = 0
	}
	// How many rules they have is for the status alone: on a Node the proxy of Services changes its
	// rules all the time.
	if changed := !slices.Equal(a.filters, found); changed && len(found) == 0 {
		a.Log.Info("Nobody else filters the traffic of this host any more")
	} else if changed {
		a.Log.Info("Others filter the traffic of this host, too; what they drop stays dropped whatever policies allow", "filters", texts)
	}
	a.filters = found
	var names []string
	for _, f := range found {
		names = append(names, f.String())
	}
	a.change(func(s *Status) { s.Foreign, s.ForeignError, s.filters = texts, "", names })
}

// forgetNames drops addresses of names that count no more, but for those that the host still has
// connections with.
func (a *Agent) forgetNames() {
	if a.Names == nil || len(a.Names.expired()) == 0 {
		return
	}
	peers := map[netip.Addr]bool{}
	if a.Connections != nil {
		var err error
		if peers, err = a.Connections.Peers(); err != nil {
			a.Log.Info("It cannot be read with whom the host has connections, so addresses of names count on", "reason", err.Error())
			return
		}
	}
	a.Names.forget(func(addr netip.Addr) bool { return peers[addr] })
}

// lookUp renews the failsafe flows.
func (a *Agent) lookUp(ctx context.Context) {
	if a.Failsafe == nil {
		return
	}
	flows, err := a.Failsafe(ctx)
	a.change(func(s *Status) { s.FailsafeError = textOf(err) })
	if err != nil {
		a.Log.Info("The addresses of failsafe flows cannot be looked up, those known count on", "reason", err.Error())
		if len(a.failsafe) > 0 {
			return
		}
	}
	if !slices.EqualFunc(flows, a.failsafe, sameFailsafe) {
		a.failsafe, a.dirty = flows, true
	}
	a.change(func(s *Status) { s.Failsafe = a.failsafe })
}

// former returns what was found and, of those that the agent finds out by itself, what was kept and
// not found.
func former(found, kept []nft.Failsafe) []nft.Failsafe {
	out := slices.Clone(found)
	for _, k := range kept {
		if k.Name == controllerFlow && !slices.ContainsFunc(found, func(f nft.Failsafe) bool { return sameFailsafe(f, k) }) {
			out = append(out, k)
		}
	}
	return out
}

func sameFailsafe(f, g nft.Failsafe) bool {
	same := f.Name == g.Name && f.Direction == g.Direction && f.Protocol == g.Protocol && f.SourcePort == g.SourcePort && f.Port == g.Port
	return same && slices.Equal(f.CIDRs, g.CIDRs)
}

// step brings the kernel to what is wanted now.
func (a *Agent) step(ctx context.Context) {
	heard := a.heardSince()
	if c, version, err := a.mirror.Current(); err == nil && version != a.version {
		a.wanted, a.version, a.dirty, a.loaded = &c, version, true, false
	}
	if a.wanted == nil && a.bare && a.Network != nil && a.Network.current() != nil {
		// The Pod of the controller may have to leave the Node before the controller can say
		// anything. Others wait for it, and are closed.
		a.wanted, a.dirty, a.loaded = &enforcer.Computed{}, true, true
	}
	a.expire()
	if a.Names != nil {
		if _, version := a.Names.current(); version != a.names {
			a.dirty = true
		}
	}
	ready := a.wanted != nil
	if a.Pods != nil {
		node, version := a.Pods.current()
		a.dirty = a.dirty || version != a.pods
		ready = ready && node != nil
	}
	a.dirty = a.dirty || a.balanced() != a.leads
	a.dirty = a.dirty || !a.applied.Equal(a.releasedUntil()) || !sameFrontends(a.frontends(), a.services)
	if a.dirty && ready {
		a.enforce(ctx, heard)
	} else if !a.cutAt.IsZero() && !a.Clock.Now().Before(a.cutAt) {
		a.cutAt = time.Time{}
		a.cut(ctx)
	}
	a.show()
}

// expire ends a release whose time is over.
func (a *Agent) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.released.IsZero() && !a.Clock.Now().Before(a.released) {
		a.Log.Info("The release is over, policies are enforced again")
		a.released = time.Time{}
	}
}

// Release stops enforcing until a time, or begins again with the zero time. It returns when this is
// kept on disk; it takes effect also if that fails.
func (a *Agent) Release(until time.Time) error {
	a.mu.Lock()
	a.released = until
	a.mu.Unlock()
	a.Log.Info("Somebody on the host releases it", "until", until)
	err := a.Store.Release(a.Key, until)
	a.poke()
	return err
}

func (a *Agent) releasedUntil() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.released
}

// enforce compiles and writes what was first heard of at a time; zero if it was not heard of.
func (a *Agent) enforce(ctx context.Context, heard time.Time) {
	begun := a.Clock.Now()
	var known *nft.Names
	var knownVersion uint64
	if a.Names != nil {
		known, knownVersion = a.Names.current()
	}
	var node *nft.Node
	var podsVersion uint64
	if a.Pods != nil {
		node, podsVersion = a.Pods.current()
	}
	services := a.frontends()
	balanced := a.balanced()
	effective, result := a.compile(nft.Input{Failsafe: a.failsafe, Names: known, Node: node, Services: services, Balanced: balanced})
	program := result.Program
	released := a.releasedUntil()
	if !released.IsZero() {
		program = nft.Released(result.Program)
	}
	isolates := Isolated{result.Isolated[nft.Ingress], result.Isolated[nft.Egress]}
	was := a.isolated(isolates)
	if !released.IsZero() {
		isolates = Isolated{}
	}
	if !a.mayOpen(ctx, was, isolates) {
		if !released.IsZero() {
			a.report(ctx, result) // so that the cloud guards the host first
		}
		return
	}
	var names map[string][]NameAddress
	if a.Names != nil {
		names = a.Names.kept()
	}
	kept := Kept{Key: a.Key, Computed: &effective, ReleasedUntil: released, Names: names, Node: node, Services: services, Failsafe: a.failsafe}
	if a.Pods != nil {
		kept.Attachments = a.Pods.settled()
		kept.HostPorts, _ = a.Pods.hostPorts()
		if a.Pods.blind() { // what is known is not all
			kept.Node = nil
		}
	}
	if a.Network != nil {
		kept.Network = a.Network.kept()
	}
	former := a.program
	change := nft.Diff(former, program.WithRevision(a.revision))
	repair := a.program != nil && change.Empty()
	revision := a.revision
	if loaded := a.program == nil && a.loaded; repair || loaded {
		kept.Revision = revision
		a.Store.Keep(kept)
	} else {
		revision = a.record(kept)
	}
	program = program.WithRevision(revision)
	a.saveSoon()
	if !repair {
		a.countBefore(change)
	}
	w, err := a.Table.Apply(program)
	if err != nil {
		a.change(func(s *Status) { s.Error = err.Error() })
		a.hearAgain(heard)
		if errors.Is(err, kernel.ErrOwned) {
			a.refused = err
			return
		}
		a.Log.Error(err, "Writing the rules of the kernel failed, what was in force stays, trying again")
		return
	}
	if w.Messages > largeWrite {
		a.trimAt = a.Clock.Now().Add(trimAfter)
	}
	if w.Messages > 0 && released.IsZero() && a.tried != a.version {
		a.changed(a.effective)
	}
	a.tried = a.version
	if !released.IsZero() {
		a.probing.trial = nil
	}
	a.revision = revision
	a.dirty, a.program, a.applied, a.effective, a.pods, a.services = false, program, released, &effective, podsVersion, services
	if a.Names != nil {
		a.names = knownVersion
		a.Names.inForce(result.Program.Names, knownVersion)
	}
	if a.Pods != nil {
		a.Pods.enforced(podsVersion)
	}
	a.audited = a.Clock.Now()
	a.generationAfter(w)
	a.led(balanced)
	if repair && w.Messages > 0 {
		a.Log.Info("Somebody else has changed our table, it is as it was again", "chains", w.Chains, "rules", w.Rules, "elements", w.Elements)
	}
	logs := a.logs
	if a.logs == nil || change.Logs(former) {
		logs = program.Logs()
	}
	recovered.Holding(&a.mu, func() {
		if a.judge = program; w.Messages > 0 || a.judgeSince.IsZero() {
			a.judgeSince = a.audited
		}
		if !maps.Equal(logs, a.logs) {
			a.formerLogs, a.logs = a.logs, logs
		}
		s := &a.status
		s.Error = ""
		s.Owned = a.Table.Owned()
		s.KernelLacks = nil
		for _, f := range a.Table.Lacks() {
			if f == kernel.FeatureKinds && !a.Forwarded {
				continue
			}
			s.KernelLacks = append(s.KernelLacks, f.String())
		}
		s.Rules, s.Elements = program.Rules(), program.Elements()
		s.IsolatedIngress, s.IsolatedEgress = isolates[0], isolates[1]
		s.Pods, s.Evaded = podsStatus(node, result), len(result.Bypassed)
		if w.Messages > 0 {
			s.LastWrite = metav1.NewTime(a.audited)
			s.LastWriteMilliseconds = a.audited.Sub(begun).Milliseconds()
			a.measure(heard, begun, a.audited)
			if repair {
				s.Repairs++
			}
		}
		s.ReleasedUntil = metav1.NewTime(released)
	})
	a.report(ctx, result)
	if w.Messages > 0 {
		// A second time for connections that were being made while the rules changed. Where changes
		// come fast, all connections are read once a second.
		a.cutAt = a.Clock.Now().Add(cutAgain)
		if since := a.Clock.Now().Sub(a.lastCut); since < 0 || since >= cutAgain {
			a.cut(ctx)
		}
	}
}

// cut makes established connections obey.
func (a *Agent) cut(ctx context.Context) {
	if a.Connections == nil || a.KeepEstablished || a.program == nil {
		return
	}
	a.lastCut = a.Clock.Now()
	n, err := a.Connections.Cut(ctx, a.program)
	if err != nil && !errors.Is(err, kernel.ErrUnlabelled) {
		a.cutAt = a.Clock.Now().Add(cutAgain)
		a.Log.Error(err, "Established connections could not be judged, trying again")
	}
	if n > 0 {
		a.Log.Info("Established connections were ended that policies do not allow", "connections", n)
	}
	a.change(func(s *Status) {
		s.ConnectionsCut += n
		s.ConnectionsError = textOf(err)
	})
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
