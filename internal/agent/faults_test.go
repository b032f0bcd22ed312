package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/seed"
)

// neverOpens connects to a port of the host that no policy of the test allows, again and again
// until the returned function is called. That must never succeed.
func (f *fixture) neverOpens(port uint16) (stop func()) {
	f.t.Helper()
	end := f.keepsClosed(port)
	stop = sync.OnceFunc(func() {
		if tries := end(); tries < 3 {
			f.t.Errorf("it was tried only %d times", tries)
		}
	})
	f.t.Cleanup(stop)
	return stop
}

// keepsClosed is neverOpens for as short a time as the caller likes: what ends it tells how often
// it was tried.
func (f *fixture) keepsClosed(port uint16) (end func() (tries int)) {
	f.t.Helper()
	done, tries := make(chan struct{}), 0
	var running sync.WaitGroup
	running.Go(func() {
		for source := uint16(40000); ; source++ {
			select {
			case <-done:
				return
			default:
			}
			a := nfttest.Attempt{From: f.peer, Network: "tcp", Source: netip.AddrPortFrom(peerAddr, source), Destination: netip.AddrPortFrom(hostAddr, port)}
			got, err := a.Run(20 * time.Millisecond)
			if err != nil && !errors.Is(err, unix.ENETUNREACH) {
				f.t.Error(err)
				return
			}
			if got == nfttest.Passed {
				f.t.Errorf("port %d was open for a moment", port)
				return
			}
			tries++
		}
	})
	end = sync.OnceValue(func() int { close(done); running.Wait(); return tries })
	f.t.Cleanup(func() { end() })
	return end
}

// TestSocketIsForRootOnly: nobody but the administrator of a host asks its agent, and nobody else
// reads what it keeps.
func TestSocketIsForRootOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(80, 1, "")
	a, _ := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	socket := filepath.Join(t.TempDir(), "run", "agent.sock")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = a.Serve(ctx, socket) }()
	mode := func(path string) fs.FileMode {
		info, err := os.Lstat(path)
		if err != nil {
			return 0
		}
		return info.Mode()
	}
	f.eventually("it answers, for root", func() bool { return mode(socket) == fs.ModeSocket|0o600 })
	if m := mode(filepath.Dir(socket)); m.Perm() != 0o700 {
		t.Errorf("the folder of the socket has the mode %v", m)
	}
	err := filepath.WalkDir(f.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if m := mode(path); m.Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, m)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSecondEntityWithTheKey: somebody gives a second ExternalEntity the key of a host, to which
// the same policy applies. The agent refuses all policies, says why, and stays at what it enforced:
// a change that comes with it is not in force. When the second one is gone, it is.
func TestSecondEntityWithTheKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(80, 1, "")
	_, _ = f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	second := policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "vms", Name: "second"}
	f.engine.PutEntity(policy.Entity{EntityRef: second, Labels: map[string]string{"app": "web"}, Addresses: []netip.Addr{peerAddr}, Host: hostKey})
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
	refused := func(generation int64) func() bool {
		return func() bool {
			r := f.reports.of("p")
			return r.Generation == generation && r.RealizationFailure && strings.Contains(r.Message, "several entities have the key of this host")
		}
	}
	// Policies and groups come by watches of their own: a policy may come before a group.
	f.eventually("the second entity is known", refused(1))
	f.allow(82, 2, "")
	f.eventually("refused", refused(2))
	if !f.reaches(80) || f.open(82) {
		t.Error("not what was enforced last")
	}
	f.engine.DeleteEntity(second)
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
	f.eventually("enforced again", func() bool { r := f.reports.of("p"); return r.Generation == 2 && !r.RealizationFailure })
	if f.open(80) || !f.reaches(82) {
		t.Error("not what the policy says now")
	}
}

// TestSecondAgent starts a second agent on a host: it ends and says why, nothing changes, and the
// first one answers as before. When the first one has ended, another one takes over.
func TestSecondAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(80, 1, "")
	first, stop := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	defer f.neverOpens(81)()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = first.Serve(ctx, socket) }()
	f.eventually("the first one answers", func() bool { _, err := net.Dial("unix", socket); return err == nil })
	for _, dir := range []string{f.dir, filepath.Join(t.TempDir(), "another")} {
		var table *kernel.Table
		if err := f.host.Do(func() (err error) { table, err = kernel.Open(kernel.DefaultTable); return err }); err != nil {
			t.Fatal(err)
		}
		store, err := disk.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		second := agent.New(agent.Options{Key: f.key, Table: table, Store: store, Clock: clock.RealClock{}, Log: logr.Discard(), Reports: f.to,
			Follower: enforcer.Follower{Source: f.from, Clock: clock.RealClock{}, Log: logr.Discard()}})
		if err := second.Run(t.Context()); !errors.Is(err, kernel.ErrOwned) {
			t.Errorf("the second ends with %v", err)
		}
		if err := second.Serve(t.Context(), socket); err == nil || !strings.Contains(err.Error(), "another process answers") {
			t.Errorf("the second serves: %v", err)
		}
		if err := table.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := net.Dial("unix", socket); err != nil {
		t.Errorf("the first one does not answer any more: %v", err)
	}
	if !f.reaches(80) || f.open(81) {
		t.Error("the second agent has changed something")
	}
	stop()
	next, _ := f.start()
	f.eventually("another one takes over", func() bool { return next.Status().State == agent.StateEnforcing })
	if !f.reaches(80) || f.open(81) {
		t.Error("not as the policy says")
	}
}

// faulty is a table whose calls fail now and then, before or after they have taken effect.
type faulty struct {
	*kernel.Table
	mu     sync.Mutex
	random *rand.Rand
	broken atomic.Bool
	failed atomic.Int64
}

// fault is the error of a call; nil if it goes well.
func (f *faulty) fault() (err error, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.broken.Load() || f.random.IntN(2) == 0 {
		return nil, false
	}
	f.failed.Add(1)
	list := []error{unix.ENOBUFS, unix.EINTR, unix.ENOMEM, unix.EAGAIN, unix.EBUSY, unix.EPERM, unix.ENOENT}
	return list[f.random.IntN(len(list))], f.random.IntN(2) == 0
}

func (f *faulty) Apply(want *ruleset.Program) (kernel.Written, error) {
	err, after := f.fault()
	if err != nil && !after {
		f.Forget()
		return kernel.Written{}, err
	}
	w, real := f.Table.Apply(want)
	if err != nil {
		f.Forget() // as the table does, which does not know then what has become of it
	}
	return w, errors.Join(real, err)
}

func (f *faulty) Generation() (uint32, error) {
	if err, _ := f.fault(); err != nil {
		return 0, err
	}
	return f.Table.Generation()
}

func (f *faulty) Counters(chains ...string) (map[string][]kernel.Counter, error) {
	if err, _ := f.fault(); err != nil {
		return nil, err
	}
	return f.Table.Counters(chains...)
}

func (f *faulty) Foreign() ([]kernel.Filter, error) {
	if err, _ := f.fault(); err != nil {
		return nil, err
	}
	return f.Table.Foreign()
}

// TestNetlinkErrors has every second call to the kernel fail while policies change. Nothing is open
// that no policy allows, the status says what is wrong, and once calls succeed all is as the last
// policy says.
func TestNetlinkErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var table *faulty
	f.wrap = func(k *kernel.Table) agent.Table {
		table = &faulty{Table: k, random: rand.New(rand.NewPCG(seed.Of(t), 71))}
		return table
	}
	f.allow(80, 1, "")
	a, _ := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	stop := f.neverOpens(81)
	table.broken.Store(true)
	told := false
	for n := int64(2); n < 14; n++ {
		f.allow([]int32{80, 82}[n%2], n, "")
		f.eventually("it was tried", func() bool {
			s := a.Status()
			told = told || s.Kernel.Error != ""
			return f.reports.of("p").Generation == n
		})
	}
	if table.failed.Load() < 10 || !told {
		t.Errorf("%d calls failed, told: %t", table.failed.Load(), told)
	}
	f.allow(82, 14, "")
	table.broken.Store(false)
	f.eventually("as the last policy says", func() bool { return f.open(82) && !f.open(80) })
	f.eventually("nothing is wrong any more", func() bool {
		s := a.Status()
		return s.State == agent.StateEnforcing && s.Kernel.Error+s.Host.ForeignError+s.Faults.Statistics == "" && f.reports.of("p").Generation == 14
	})
	stop()
}

// others do on a host what other firewalls do.
type others struct{ *nftables.Conn }

// newOthers returns others in the network namespace of the calling thread.
func newOthers() (o others, err error) {
	o.Conn, err = nftables.New(nftables.AsLasting())
	return o, err
}

// ufw replays what ufw does when it is enabled, by iptables-nft: a table filter whose chain INPUT
// drops what chains of ufw do not accept, here ssh.
func (o others) ufw() error {
	drop := nftables.ChainPolicyDrop
	table := o.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "filter"})
	input := o.AddChain(&nftables.Chain{Table: table, Name: "INPUT", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &drop})
	before := o.AddChain(&nftables.Chain{Table: table, Name: "ufw-before-input"})
	o.AddRule(&nftables.Rule{Table: table, Chain: input, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: before.Name}}})
	o.AddRule(&nftables.Rule{Table: table, Chain: before, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0, 22}}, &expr.Verdict{Kind: expr.VerdictAccept}}})
	return o.Flush()
}

// noUfw replays ufw disable: chains are flushed and removed, and what is left accepts.
func (o others) noUfw() error {
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: "filter"}
	o.FlushTable(table)
	o.DelChain(&nftables.Chain{Table: table, Name: "ufw-before-input"})
	accept := nftables.ChainPolicyAccept
	o.AddChain(&nftables.Chain{Table: table, Name: "INPUT", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &accept})
	return o.Flush()
}

// firewalld replays a start of firewalld: its table, replaced as a whole, with a chain that rejects
// what a zone does not accept.
func (o others) firewalld() error {
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: "firewalld"}
	o.AddTable(table)
	o.DelTable(table)
	o.AddTable(table)
	chain := o.AddChain(&nftables.Chain{Table: table, Name: "filter_INPUT", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityRef(10)})
	o.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1}, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: []byte{byte(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED), 0, 0, 0}, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}, &expr.Verdict{Kind: expr.VerdictAccept}}})
	o.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}})
	return o.Flush()
}

func (o others) noFirewalld() error {
	o.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "firewalld"})
	return o.Flush()
}

// flush replays "nft flush ruleset", with which nftables.service starts and stops.
func (o others) flush() error {
	o.FlushRuleset()
	return o.Flush()
}

// TestFirewallsOfOthers starts and stops firewalls as their programs do, by the same changes of the
// kernel, again and again. What policies keep closed stays so all the while, what others drop is
// told, and when they are gone all is as before.
func TestFirewallsOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(80, 1, "")
	a, _ := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	stop := f.neverOpens(81)
	var o others
	if err := f.host.Do(func() (err error) { o.Conn, err = nftables.New(nftables.AsLasting()); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.CloseLasting() })
	for range 3 {
		for _, c := range []struct {
			name      string
			start, no func() error
			told      string
		}{
			{"ufw", o.ufw, o.noUfw, "chain INPUT of table ip filter filters input"},
			{"firewalld", o.firewalld, o.noFirewalld, "chain filter_INPUT of table inet firewalld filters input"},
			{"nftables.service", o.ufw, o.flush, "chain INPUT of table ip filter filters input"},
		} {
			if err := c.start(); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if f.open(80) {
				t.Errorf("%s drops nothing here, so this shows nothing", c.name)
			}
			f.eventually(c.name+" is told", func() bool { return strings.Contains(strings.Join(a.Status().Host.Foreign, "; "), c.told) })
			if err := c.no(); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if !f.reaches(80) {
				t.Errorf("%s is gone, and a port that a policy allows is closed", c.name)
			}
		}
	}
	f.eventually("all are gone", func() bool { return len(a.Status().Host.Foreign) == 0 })
	if s := a.Status(); s.State != agent.StateEnforcing {
		t.Errorf("%+v", s)
	}
	stop()
}

// TestRulesOfOthersAreNoNews: the status counts the rules of another's filter as they come, and the
// log names the filter once.
func TestRulesOfOthersAreNoNews(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var mu sync.Mutex
	var lines []string
	f.log = funcr.New(func(_, args string) {
		if strings.Contains(args, "Others filter") || strings.Contains(args, "Nobody else filters") {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, args)
		}
	}, funcr.Options{LogTimestamp: true})
	told := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(lines)
	}
	a, _ := f.start()
	var o others
	if err := f.host.Do(func() (err error) { o.Conn, err = nftables.New(nftables.AsLasting()); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.CloseLasting() })
	if err := o.ufw(); err != nil {
		t.Fatal(err)
	}
	is := func(text string) func() bool {
		return func() bool { return strings.Contains(strings.Join(a.Status().Host.Foreign, "; "), text) }
	}
	f.eventually("it is told", is("with 2 rules"))
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: "filter"}
	for n := 3; n < 6; n++ {
		o.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Table: table, Name: "ufw-before-input"}, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}})
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
		f.eventually("its rules are counted", is(fmt.Sprintf("with %d rules", n)))
	}
	// The kernel sets the policy of a new chain to drop a moment after it shows the chain, which is
	// news of its own.
	if before := told(); len(before) != 1 && (len(before) != 2 || strings.Contains(before[0], "it drops")) {
		t.Errorf("told %d times:\n%s", len(before), strings.Join(before, "\n"))
	}
	if err := o.flush(); err != nil {
		t.Fatal(err)
	}
	f.eventually("it is gone", func() bool { return len(a.Status().Host.Foreign) == 0 })
	f.eventually("that is told", func() bool { return strings.Contains(strings.Join(told(), ""), "Nobody else filters") })
}

// TestBoot restarts a host as its units do: without a network what was enforced last is loaded, and
// only then come the network and the agent. At no time is anything open.
func TestBoot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(80, 1, "")
	_, stop := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	stop()
	f.source.away.Store(true)
	up := f.downLink()
	if err := f.host.Do(f.wipe); err != nil {
		t.Fatal(err)
	}
	var table *kernel.Table
	if err := f.host.Do(func() (err error) { table, err = kernel.Open(kernel.DefaultTable); return err }); err != nil {
		t.Fatal(err)
	}
	store, err := disk.Open(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	boot := agent.New(agent.Options{Key: f.key, Table: table, Store: store, Clock: clock.RealClock{}, Log: logr.Discard(), Follower: enforcer.Follower{Clock: clock.RealClock{}, Log: logr.Discard()}})
	if err := boot.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	done := f.neverOpens(81)
	up()
	f.eventually("the network is there", func() bool { return f.open(80) })
	a, _ := f.start()
	f.eventually("kept", func() bool { return a.Status().State == agent.StateKept })
	f.source.away.Store(false)
	f.eventually("received", func() bool { return a.Status().State == agent.StateEnforcing })
	if !f.reaches(80) || f.open(81) {
		t.Error("not as the policy says")
	}
	done()
}

// downLink sets the links of the host down, as before there is a network, until the returned
// function is called.
func (f *fixture) downLink() (up func()) {
	f.t.Helper()
	links, err := f.host.Handle.LinkList()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, l := range links {
		if err := f.host.Handle.LinkSetDown(l); err != nil {
			f.t.Fatal(err)
		}
	}
	return func() {
		f.t.Helper()
		for _, l := range links {
			if err := f.host.Handle.LinkSetUp(l); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}
