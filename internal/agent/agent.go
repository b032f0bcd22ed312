package agent

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/admission"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/agent/packetlog"
	"github.com/nephele-io/nephele/internal/agent/pods"
	"github.com/nephele-io/nephele/internal/agent/services"
	"github.com/nephele-io/nephele/internal/agent/traffic"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/errtext"
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
	Apply(want *ruleset.Program) (kernel.Written, error)
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
	Cut(ctx context.Context, p *ruleset.Program) (int, error)
	// Peers are the other ends of the connections that the host has.
	Peers() (map[netip.Addr]bool, error)
	// ForgetDatagrams lets UDP connections be forgotten that go to backends of Services that are
	// gone.
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
	// Pods holds the Pods of the Node. Nil on a VM.
	Pods *pods.Pods
	// Network makes the network of the Node, or only encrypts what is between Nodes. Nil where
	// another CNI plugin makes it, and nothing is encrypted.
	Network *nodenetwork.Network
	// Balancing leads connections to ports of the Node that Pods want, in a network of ours, and to
	// Services, unless kube-proxy does that.
	Balancing *services.Balancing
	// Services holds the Services of the cluster of the Node. Nil where none are known; policies
	// that have some as peers are refused there.
	Services *services.Frontends
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
	Store     *disk.Store
	// Failsafe returns the flows that no policy may cut. While it fails, those that it returned
	// last count.
	Failsafe func(ctx context.Context) ([]nft.Failsafe, error)
	// Names knows the addresses of domain names; without it policies that name some are refused.
	Names *fqdn.Names
	// PacketLog is what writes what policies want logged.
	PacketLog *packetlog.Log
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
	options Options
	mirror  *enforcer.Mirror
	wake    chan struct{}
	metrics *Metrics
	// board is what others read of it.
	board board

	// The rest is of the goroutine of Run.

	// wanted is what is to be enforced: received, or loaded; nil before either.
	wanted *enforcer.Computed
	// version is that of the mirror of which wanted is; 0 if it was loaded.
	version  uint64
	failsafe []nft.Failsafe
	loaded   bool
	// bare tells that there was nothing when the agent started, neither kept nor in the kernel.
	bare bool
	// refused is why the agent must end: another one guards the host.
	refused error
	// dirty tells that the table must be written, or that it is not known what it holds.
	dirty bool
	// tried is the version that the last trial was about; 0 to try the same one again.
	tried uint64
	// sealing encrypts what is between Nodes where another plugin makes the network; nil for not.
	sealing *nodenetwork.Network
	// compilation makes programs, force is the one in force, and audit what others have changed.
	compilation compilation
	force       force
	audit       audit
	// admission lets new Pods wait for their policies; nil on a VM.
	admission *admission.Admission
	reporting reporting
	probing   probing
	telling   telling
	counting  counting
	settings  settings
	// heed is what is known of the cloud around the host.
	heed    heed
	cutting cutting
	memory  memory
	// saving is what writes to the disk meanwhile.
	saving saving
}

// force is what is in force in the kernel.
type force struct {
	// program is nil before there is one, and revision is that of it, or then of what was loaded.
	program  *ruleset.Program
	revision uint64
	// applied is the release that the program is made for.
	applied time.Time
	// effective is what the program is made of, released or not.
	effective *enforcer.Computed
	// names is the version of what is known of names that the program is made with, pods that of
	// the Pods of the Node, services where Services are reached, and leads where connections to
	// them go.
	names    uint64
	pods     uint64
	services map[string][]nft.Frontend
	leads    *nft.Balanced
}

// cutting is when established connections are judged.
type cutting struct {
	// at is when they are to be judged again, zero for not at all, and last when they were.
	at, last time.Time
}

// New returns an agent that does nothing before Run.
func New(o Options) *Agent {
	o.ConfirmWithin = cmp.Or(o.ConfirmWithin, confirmWithin)
	a := &Agent{options: o, wake: make(chan struct{}, 1), reporting: reporting{published: map[string]v1beta2.NetworkPolicyNodeStatus{}}}
	a.compilation.good = map[string]*v1beta2.NetworkPolicy{}
	if o.Network != nil && o.Pods != nil {
		var shaped func()
		if o.Network.Makes() {
			shaped = o.Network.Wake
		}
		o.Pods.JoinNetwork(o.Network.Rules, o.Network.Makes(), shaped)
		o.Network.JoinPods(o.Pods.Wake, o.Pods.AddressesInAPI, o.Pods.Shapes)
	}
	if o.Network != nil && !o.Network.Makes() {
		a.sealing, a.options.Network = o.Network, nil
	}
	a.compilation.compiler.LogDenied, a.compilation.compiler.Forwarded = o.Traffic != nil, o.Forwarded
	if o.Balancing != nil && o.Pods != nil {
		o.Balancing.JoinPods(o.Pods.HostPorts, a.poke)
		o.Pods.OnChange(o.Balancing.Wake)
	}
	a.metrics = newMetrics(a)
	a.mirror = o.Follower.Mirror(o.Key, a.hear)
	a.saving.results = make(chan error, 1)
	a.probing.results, a.telling.results, a.counting.results = make(chan probed, 1), make(chan told, 1), make(chan counted, 1)
	if o.Pods != nil {
		a.admission = admission.New(a.admissionOptions())
	}
	a.board.status = Status{Key: o.Key, State: StateStarting, Host: HostStatus{JudgesForwarded: o.Forwarded}}
	return a
}

// Admit takes in what a runtime says of a new Pod, and returns when the policies on the Pod are in
// force, as Admission.Admit does.
func (a *Agent) Admit(ctx context.Context, about cni.Attachment) error {
	return a.admission.Admit(ctx, about)
}

func (a *Agent) admissionOptions() admission.Options {
	o := a.options
	out := admission.Options{
		Key: o.Key, Pods: o.Pods, Source: o.Follower.Source, Current: a.mirror.Current, Computed: o.Computed, Essential: o.Essential,
		Failing: func() string { return a.board.now().Kernel.Error }, Waited: a.metrics.waited, Clock: o.Clock, Log: o.Log,
	}
	if o.Network != nil {
		out.Connect = o.Network.Connect // the addresses are closed as all that are nobody's
	}
	return out
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
	look, info := a.options.Clock.NewTicker(lookInterval), a.options.Clock.NewTicker(infoInterval)
	defer look.Stop()
	defer info.Stop()
	a.survey()
	a.readSettings()
	var names <-chan struct{} // nothing comes from nil
	if a.options.Names != nil {
		names = a.options.Names.News()
	}
	var pods <-chan struct{}
	if a.options.Pods != nil {
		pods = a.options.Pods.News()
		running.Go(func() { a.options.Pods.Run(ctx) })
	}
	for _, n := range []*nodenetwork.Network{a.options.Network, a.sealing} {
		if n != nil {
			running.Go(func() { n.Run(ctx) })
		}
	}
	if a.options.Balancing != nil {
		running.Go(func() { a.options.Balancing.Run(logr.NewContext(ctx, a.options.Log)) })
	}
	var services <-chan struct{}
	if a.options.Services != nil {
		services = a.options.Services.News()
		running.Go(func() { a.options.Services.Run(ctx) })
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
			a.options.Pods.Refresh()
		case <-look.C():
			a.look()
			a.memory.giveBack(a.options.Clock.Now())
			a.saveSoon()
			if a.options.Pods != nil {
				a.options.Pods.Settle()
			}
			a.forgetNames()
			if a.audit.due(a.options.Table) {
				a.survey()
			}
			a.readSettings()
			a.probe(ctx)
		case r := <-a.probing.results:
			a.answered(r)
		case <-info.C():
			a.lookUp(ctx)
			a.survey()
			if a.cutting.at.IsZero() { // conntrack may have forgotten connections, or others made it forget
				a.cutting.at = a.options.Clock.Now()
			}
			if a.memory.trimAt.IsZero() { // what little things leave in a minute
				a.memory.trimAt = a.options.Clock.Now()
			}
			if a.options.Pods != nil { // how their packets go may have changed
				a.options.Pods.Age()
				a.options.Pods.Refresh()
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
		a.options.Log.Error(fault, "A panic was recovered, trying again", "in", pause.String(), "stack", recovered.StackOf(fault))
		a.board.change(func(s *Status) { s.Kernel.Error = fault.Error() })
		a.dirty = true
		_ = recovered.Do(func() { a.tell(ctx) })
		select {
		case <-ctx.Done():
			return nil
		case <-a.options.Clock.After(pause):
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
	var errs []error
	s := a.Status()
	for _, text := range []string{s.Faults.Store, s.Kernel.Error} {
		if text != "" {
			errs = append(errs, errors.New(text))
		}
	}
	return errors.Join(errs...)
}

// restore enforces what was kept, if anything was.
func (a *Agent) restore(ctx context.Context) {
	a.lookUp(ctx)
	kept, err := a.options.Store.Load()
	if err != nil {
		a.options.Log.Error(err, "What was enforced last cannot be loaded")
		a.board.change(func(s *Status) { s.Faults.Store = err.Error() })
		return
	}
	inKernel, there, err := a.options.Table.Revision()
	if errors.Is(err, kernel.ErrOwned) {
		a.refused = err
		return
	}
	if err != nil {
		a.options.Log.Error(err, "It is not known which revision the kernel has")
	}
	a.options.Store.Reached(inKernel)
	a.bare = err == nil && !there && (kept == nil || kept.Computed == nil)
	if kept == nil {
		return
	}
	if kept.Key != a.options.Key {
		a.options.Store.Discard()
		a.board.change(func(s *Status) { s.Faults.Store = "what is kept was computed for " + kept.Key + " and is not enforced" })
		return
	}
	a.board.release(kept.ReleasedUntil)
	if a.options.Names != nil {
		a.options.Names.Restore(kept.Names)
	}
	if a.options.Pods != nil {
		a.options.Pods.Restore(kept)
	}
	if a.options.Network != nil {
		a.options.Network.Restore(kept)
	}
	if a.options.Services != nil {
		a.options.Services.Restore(kept.Services)
	}
	if a.options.Failsafe != nil && a.Status().Host.FailsafeError != "" {
		a.failsafe = former(a.failsafe, kept.Failsafe)
		a.board.change(func(s *Status) { s.Host.Failsafe = a.failsafe })
	}
	if why := apart(kept.Revision, inKernel); there && why != "" {
		a.options.Log.Info("What is kept on disk is not enforced, and the rules in the kernel stay until the controller answers", "reason", why)
		a.board.change(func(s *Status) {
			s.Faults.Store = why + ", so it is not enforced, and the rules in the kernel stay until the controller answers"
		})
		return
	}
	if kept.Computed == nil {
		return
	}
	a.wanted, a.dirty, a.loaded, a.force.revision = kept.Computed, true, true, kept.Revision
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
func (a *Agent) record(kept disk.State) uint64 {
	revision, err := a.options.Store.Record(kept, a.options.Clock.After(recordWait))
	if err != nil {
		a.options.Log.Error(err, "What is enforced next is not on the disk before; if the host loses power now, what was enforced before comes back")
		a.board.change(func(s *Status) { s.Faults.Store = err.Error() })
	}
	return revision
}

// look finds out whether somebody else has changed something.
func (a *Agent) look() {
	if a.force.program != nil && !a.dirty && a.audit.foreign(a.options.Table, a.options.Clock.Now()) {
		a.options.Table.Forget()
		a.dirty = true
	}
}

// survey reads the filters of others.
func (a *Agent) survey() {
	if a.options.Balancing != nil && a.options.Balancing.Leads() {
		beside, err := a.options.Table.KubeProxy()
		if err == nil && beside == "" && a.options.Pods != nil {
			if node, _ := a.options.Pods.Current(); node != nil && node.IPVS {
				beside = "mode IPVS"
			}
		}
		a.options.Balancing.SetBeside(beside, err)
	}
	found, err := a.options.Table.Foreign()
	a.audit.unsurveyed = err != nil
	if err != nil {
		a.board.change(func(s *Status) { s.Host.ForeignError = errtext.Of(err) })
		return
	}
	var texts []string
	for i := range found {
		texts = append(texts, found[i].String())
		found[i].Rules = 0
	}
	// How many rules they have is for the status alone: on a Node the proxy of Services changes its
	// rules all the time.
	if changed := !slices.Equal(a.audit.filters, found); changed && len(found) == 0 {
		a.options.Log.Info("Nobody else filters the traffic of this host any more")
	} else if changed {
		a.options.Log.Info("Others filter the traffic of this host, too; what they drop stays dropped whatever policies allow", "filters", texts)
	}
	a.audit.filters = found
	var names []string
	for _, f := range found {
		names = append(names, f.String())
	}
	a.board.change(func(s *Status) { s.Host.Foreign, s.Host.ForeignError, s.Host.filters = texts, "", names })
}

// forgetNames drops addresses of names that count no more, but for those that the host still has
// connections with.
func (a *Agent) forgetNames() {
	if a.options.Names == nil || len(a.options.Names.Expired()) == 0 {
		return
	}
	peers := map[netip.Addr]bool{}
	if a.options.Connections != nil {
		var err error
		if peers, err = a.options.Connections.Peers(); err != nil {
			a.options.Log.Info("The connections of the host cannot be read, so addresses of names do not expire", "reason", err.Error())
			return
		}
	}
	a.options.Names.Forget(func(addr netip.Addr) bool { return peers[addr] })
}

// lookUp renews the failsafe flows.
func (a *Agent) lookUp(ctx context.Context) {
	if a.options.Failsafe == nil {
		return
	}
	flows, err := a.options.Failsafe(ctx)
	a.board.change(func(s *Status) { s.Host.FailsafeError = errtext.Of(err) })
	if err != nil {
		a.options.Log.Info("The addresses of failsafe flows cannot be looked up, those known count on", "reason", err.Error())
		if len(a.failsafe) > 0 {
			return
		}
	}
	if !slices.EqualFunc(flows, a.failsafe, sameFailsafe) {
		a.failsafe, a.dirty = flows, true
	}
	a.board.change(func(s *Status) { s.Host.Failsafe = a.failsafe })
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
	heard := a.board.heardSince()
	if c, version, err := a.mirror.Current(); err == nil && version != a.version {
		a.wanted, a.version, a.dirty, a.loaded = &c, version, true, false
	}
	if a.wanted == nil && a.bare && a.options.Network != nil && a.options.Network.Rules() != nil {
		// The Pod of the controller may have to leave the Node before the controller can say
		// anything. Others wait for it, and are closed.
		a.wanted, a.dirty, a.loaded = &enforcer.Computed{}, true, true
	}
	if a.board.expire(a.options.Clock.Now()) {
		a.options.Log.Info("The release is over, policies are enforced again")
	}
	if a.options.Names != nil {
		if _, version := a.options.Names.Current(); version != a.force.names {
			a.dirty = true
		}
	}
	ready := a.wanted != nil
	if a.options.Pods != nil {
		node, version := a.options.Pods.Current()
		a.dirty = a.dirty || version != a.force.pods
		ready = ready && node != nil
	}
	a.dirty = a.dirty || a.balanced() != a.force.leads
	a.dirty = a.dirty || !a.force.applied.Equal(a.board.releasedUntil()) || !sameFrontends(a.frontends(), a.force.services)
	if a.dirty && ready {
		a.enforce(ctx, heard)
	} else if !a.cutting.at.IsZero() && !a.options.Clock.Now().Before(a.cutting.at) {
		a.cutting.at = time.Time{}
		a.cut(ctx)
	}
	a.show()
}

// Release stops enforcing until a time, or begins again with the zero time. It returns when this is
// kept on disk; it takes effect also if that fails.
func (a *Agent) Release(until time.Time) error {
	a.board.release(until)
	a.options.Log.Info("Somebody on the host releases it", "until", until)
	err := a.options.Store.Release(a.options.Key, until)
	a.poke()
	return err
}

// compile makes a program of what is to be in force, and returns what it was made of as well.
func (a *Agent) compile(known nft.Input) (enforcer.Computed, nft.Result) {
	if a.held() {
		former := a.probing.trial.former
		return former, a.compilation.plain(former, known)
	}
	return a.compilation.compile(*a.wanted, a.force.effective, known)
}

// enforce compiles and writes what was first heard of at a time; zero if it was not heard of.
func (a *Agent) enforce(ctx context.Context, heard time.Time) {
	begun := a.options.Clock.Now()
	var known *nft.Names
	var knownVersion uint64
	if a.options.Names != nil {
		known, knownVersion = a.options.Names.Current()
	}
	var node *nft.Node
	var podsVersion uint64
	if a.options.Pods != nil {
		node, podsVersion = a.options.Pods.Current()
	}
	services := a.frontends()
	balanced := a.balanced()
	effective, result := a.compile(nft.Input{Failsafe: a.failsafe, Names: known, Node: node, Services: services, Balanced: balanced})
	program := result.Program
	released := a.board.releasedUntil()
	if !released.IsZero() {
		program = ruleset.Released(result.Program)
	}
	isolates := Isolated{result.Isolated[ruleset.Ingress], result.Isolated[ruleset.Egress]}
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
	var names map[string][]fqdn.Address
	if a.options.Names != nil {
		names = a.options.Names.Kept()
	}
	kept := disk.State{Key: a.options.Key, Computed: &effective, ReleasedUntil: released, Names: names, Node: node, Services: services, Failsafe: a.failsafe}
	if a.options.Pods != nil {
		kept.Attachments = a.options.Pods.SettledAttachments()
		kept.HostPorts, _ = a.options.Pods.HostPorts()
		if a.options.Pods.Blind() { // what is known is not all
			kept.Node = nil
		}
	}
	if a.options.Network != nil {
		kept.Network = a.options.Network.Kept()
	}
	former := a.force.program
	change := ruleset.Diff(former, program.WithRevision(a.force.revision))
	repair := a.force.program != nil && change.Empty()
	revision := a.force.revision
	if loaded := a.force.program == nil && a.loaded; repair || loaded {
		kept.Revision = revision
		a.options.Store.Keep(kept)
	} else {
		revision = a.record(kept)
	}
	program = program.WithRevision(revision)
	a.saveSoon()
	if !repair {
		a.countBefore(change)
	}
	w, err := a.options.Table.Apply(program)
	if err != nil {
		a.board.change(func(s *Status) { s.Kernel.Error = err.Error() })
		a.board.hearAgain(heard)
		if errors.Is(err, kernel.ErrOwned) {
			a.refused = err
			return
		}
		a.options.Log.Error(err, "Writing the rules of the kernel failed, what was in force stays, trying again")
		return
	}
	if w.Messages > largeWrite {
		a.memory.trimAt = a.options.Clock.Now().Add(trimAfter)
	}
	if w.Messages > 0 && released.IsZero() && a.tried != a.version {
		a.changed(a.force.effective)
	}
	a.tried = a.version
	if !released.IsZero() {
		a.probing.trial = nil
	}
	a.force.revision = revision
	a.dirty, a.force.program, a.force.applied, a.force.effective, a.force.pods, a.force.services = false, program, released, &effective, podsVersion, services
	if a.options.Names != nil {
		a.force.names = knownVersion
		a.options.Names.InForce(result.Program.Names, knownVersion)
	}
	if a.options.Pods != nil {
		a.options.Pods.Enforced(podsVersion)
	}
	a.audit.audited = a.options.Clock.Now()
	if !a.audit.wrote(a.options.Table, w) {
		a.dirty = true
	}
	a.led(balanced)
	if repair && w.Messages > 0 {
		a.options.Log.Info("Somebody else has changed our table, it is as it was again", "chains", w.Chains, "rules", w.Rules, "elements", w.Elements)
	}
	logs := a.board.logs
	if a.board.logs == nil || change.Logs(former) {
		logs = program.Logs()
	}
	recovered.Holding(&a.board.mu, func() {
		if a.board.judge = program; w.Messages > 0 || a.board.judgeSince.IsZero() {
			a.board.judgeSince = a.audit.audited
		}
		if !maps.Equal(logs, a.board.logs) {
			a.board.formerLogs, a.board.logs = a.board.logs, logs
		}
		s := &a.board.status
		s.Kernel.Error = ""
		s.Kernel.Owned = a.options.Table.Owned()
		s.Kernel.Lacks = nil
		for _, f := range a.options.Table.Lacks() {
			if f == kernel.FeatureKinds && !a.options.Forwarded {
				continue
			}
			s.Kernel.Lacks = append(s.Kernel.Lacks, f.String())
		}
		s.Kernel.Rules, s.Kernel.Elements = program.Rules(), program.Elements()
		s.Kernel.IsolatedIngress, s.Kernel.IsolatedEgress = isolates[0], isolates[1]
		s.Pods, s.Host.Evaded = podsStatus(node, result), len(result.Bypassed)
		if w.Messages > 0 {
			s.Kernel.LastWrite = metav1.NewTime(a.audit.audited)
			s.Kernel.LastWriteMilliseconds = a.audit.audited.Sub(begun).Milliseconds()
			a.metrics.changed(heard, begun, a.audit.audited)
			if repair {
				s.Kernel.Repairs++
			}
		}
		s.ReleasedUntil = metav1.NewTime(released)
	})
	a.report(ctx, result)
	if w.Messages > 0 {
		// A second time for connections that were being made while the rules changed. Where changes
		// come fast, all connections are read once a second.
		a.cutting.at = a.options.Clock.Now().Add(cutAgain)
		if since := a.options.Clock.Now().Sub(a.cutting.last); since < 0 || since >= cutAgain {
			a.cut(ctx)
		}
	}
}

// cut makes established connections obey.
func (a *Agent) cut(ctx context.Context) {
	if a.options.Connections == nil || a.options.KeepEstablished || a.force.program == nil {
		return
	}
	a.cutting.last = a.options.Clock.Now()
	n, err := a.options.Connections.Cut(ctx, a.force.program)
	if err != nil && !errors.Is(err, conntrack.ErrUnlabelled) {
		a.cutting.at = a.options.Clock.Now().Add(cutAgain)
		a.options.Log.Error(err, "Established connections could not be judged, trying again")
	}
	if n > 0 {
		a.options.Log.Info("Established connections were ended that policies do not allow", "connections", n)
	}
	a.board.change(func(s *Status) {
		s.Kernel.ConnectionsCut += n
		s.Kernel.ConnectionsError = errtext.Of(err)
	})
}
