package agent_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"

	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/tier"
)

// victimEnv tells a process of this test that it is the one to be killed: its network namespace,
// the directory of its state, and the generation of the policy that it is to enforce.
const victimEnv = "NEPHELE_TEST_AGENT_VICTIM"

// mostKills is at how many steps of a kind is killed at each commit; in make test-long at all.
const mostKills = 8

// steps are the calls by which an agent changes something outside of itself, or asks the kernel for
// what is there.
var steps = map[uint32]string{
	unix.SYS_SENDTO: "send", unix.SYS_OPENAT: "open", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "write", unix.SYS_FSYNC: "sync", unix.SYS_RENAMEAT: "rename",
}

// widen computes the policy of a generation: an odd one lets the peer reach port 80, an even one
// 81, too.
func (f *fixture) widen(generation int64) {
	ports := []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: 80}}}
	if generation%2 == 0 {
		ports = append(ports, policy.Port{Protocol: policy.TCP, Port: &policy.PortRef{Number: 81}})
	}
	f.engine.PutPolicy(policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "vms", Name: "p", UID: "p", Generation: generation, Priority: 5,
		AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: &policy.Selector{MatchLabels: map[string]string{"app": "web"}}}},
		Ingress:   []policy.Rule{{Name: "in", Action: policy.Allow, Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "10.1.0.0/24"}}}, Ports: ports}}})
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
}

// TestAgentVictim is an agent in a process of its own. It ends when the policy is enforced,
// reported and kept.
func TestAgentVictim(t *testing.T) {
	words := strings.Fields(os.Getenv(victimEnv))
	if len(words) != 3 {
		return // TestKilledAtEveryStep runs it
	}
	f, a, end := agentOfProcess(t, words[0], words[1], words[2], func(*fixture) { check(t, traceSteps()) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	f.eventually("enforced", func() bool { return fmt.Sprint(f.reports.of("p").Generation) == words[2] })
	cancel()
	check(t, <-done)
	end()
}

// agentOfProcess is the agent of a host in a process of its own: in the network namespace of a
// path, with its state in a directory and a generation of the policy. The function before is called
// with its world before it opens anything.
func agentOfProcess(t *testing.T, namespace, dir, generation string, before func(*fixture)) (f *fixture, a *agent.Agent, end func()) {
	t.Helper()
	n, err := strconv.ParseInt(generation, 10, 64)
	check(t, err)
	runtime.LockOSThread()
	ns, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	check(t, unix.Setns(ns, unix.CLONE_NEWNET))
	f = newWorld(t)
	f.widen(n)
	before(f)
	table, err := kernel.Open(kernel.DefaultTable)
	check(t, err)
	connections, err := conntrack.Open()
	check(t, err)
	connections.Local = func() ([]netip.Addr, error) { return []netip.Addr{hostAddr}, nil }
	table.Adopt = func() {
		if err := connections.Adopt(); err != nil {
			t.Error(err)
		}
	}
	store, err := disk.Open(dir)
	check(t, err)
	a = agent.New(agent.Options{Key: hostKey, Reports: f.reports, Table: table, Connections: connections, Store: store, Clock: clock.RealClock{}, Log: logr.Discard(),
		Follower: enforcer.Follower{Source: f.source, Clock: clock.RealClock{}, Interval: 20 * time.Millisecond, Log: logr.Discard()}})
	return f, a, func() { check(t, errors.Join(table.Close(), connections.Close())) }
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// traceSteps makes this process stop for its tracer before each of the steps.
func traceSteps() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the number of the call
	for nr := range steps {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr}, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}

// moment is before the nth step of a kind.
type moment struct {
	step string
	n    int
}

func (m moment) String() string { return fmt.Sprintf("%s %d", m.step, m.n) }

// killBefore runs a victim and kills it at a moment, or not at all if that does not come. It
// returns how many steps of each kind there were.
func killBefore(cmd *exec.Cmd, at moment, stateDir string) (taken map[string]int, killed bool, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the kernel knows the tracer by its thread
		taken, killed, err = traceAndKill(cmd, at, stateDir)
	}()
	<-done
	return taken, killed, err
}

func traceAndKill(cmd *exec.Cmd, when moment, stateDir string) (taken map[string]int, killed bool, err error) {
	taken = map[string]int{}
	// The victim has a process group of its own: this thread may have started processes of other
	// tests, which wait for them themselves.
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, false, err
	}
	pid := cmd.Process.Pid
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		return nil, false, err
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESECCOMP|unix.PTRACE_O_EXITKILL); err != nil {
		return nil, false, err
	}
	if err := unix.PtraceCont(pid, 0); err != nil {
		return nil, false, err
	}
	for {
		var ws unix.WaitStatus
		at, err := unix.Wait4(-pid, &ws, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return taken, killed, err
		case at == pid && ws.Exited() && ws.ExitStatus() != 0:
			return taken, killed, fmt.Errorf("the victim ended with %d", ws.ExitStatus())
		case at == pid && (ws.Exited() || ws.Signaled()):
			return taken, killed, nil
		case !ws.Stopped():
			continue // a thread has ended
		}
		signal := int(ws.StopSignal())
		if ws.StopSignal() == unix.SIGSTOP || ws.StopSignal() == unix.SIGTRAP {
			signal = 0 // of a new thread, or an event
		}
		if uint32(ws)>>16 == unix.PTRACE_EVENT_SECCOMP && !killed {
			if step := stepOf(at, stateDir); step != "" {
				taken[step]++
				if killed = when == (moment{step, taken[step]}); killed {
					if err := unix.Kill(pid, unix.SIGKILL); err != nil {
						return taken, killed, err
					}
					continue
				}
			}
		}
		if err := unix.PtraceCont(at, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return taken, killed, err
		}
	}
}

// stepOf says which step a stopped thread is about to take; nothing if it is none of an agent.
func stepOf(thread int, stateDir string) string {
	var info [88]byte // struct ptrace_syscall_info
	const getSyscallInfo = 0x420e
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(thread), uintptr(len(info)), uintptr(unsafe.Pointer(&info)), 0, 0); errno != 0 {
		return ""
	}
	step := steps[uint32(binary.NativeEndian.Uint64(info[24:]))]
	first := int32(binary.NativeEndian.Uint64(info[32:]))
	switch step {
	case "write", "sync", "send":
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", thread, first))
		if err != nil || step != "send" && !strings.HasPrefix(target, stateDir) {
			return ""
		}
	case "open":
		// Of files that it reads nobody sees anything.
		if flags := binary.NativeEndian.Uint64(info[48:]); flags&unix.O_CREAT == 0 {
			return ""
		}
	}
	return step
}

// neverCut tries port 80 of the host, which all versions of the policy allow, by new connections
// and by one that is there from the beginning, until the returned function is called. Nothing of
// that may get lost.
func (f *fixture) neverCut() (stop func()) {
	f.t.Helper()
	to := netip.AddrPortFrom(hostAddr, 80)
	lost := func(c net.Conn) (uint32, error) {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			return 0, err
		}
		var info *unix.TCPInfo
		var infoErr error
		err = raw.Control(func(fd uintptr) { info, infoErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
		if err = errors.Join(err, infoErr); err != nil {
			return 0, err
		}
		return info.Total_retrans, nil
	}
	open := func(port uint16) net.Conn {
		c, err := nfttest.Attempt{From: f.peer, Network: "tcp", Source: netip.AddrPortFrom(peerAddr, port), Destination: to}.Open(20 * time.Second)
		if err != nil {
			f.t.Errorf("port 80 could not be reached: %v", err)
			return nil
		}
		if n, err := lost(c); err != nil || n > 0 {
			f.t.Errorf("%d packets to port 80 got lost, %v", n, err)
		}
		return c
	}
	old := open(30000)
	if old == nil {
		f.t.FailNow()
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer func() { _ = old.Close() }()
		for port := uint16(30001); ; port++ {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
			c := open(port)
			if c == nil {
				return
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
			_ = old.SetDeadline(time.Now().Add(20 * time.Second))
			_, err := old.Write([]byte("x"))
			if err == nil {
				_, err = old.Read(make([]byte, 1))
			}
			if n, infoErr := lost(old); err != nil || infoErr != nil || n > 0 {
				f.t.Errorf("the connection that was there is cut: %d packets got lost, %v, %v", n, err, infoErr)
				return
			}
		}
	})
	stop = sync.OnceFunc(func() { close(done); running.Wait() })
	f.t.Cleanup(stop)
	return stop
}

// TestKilledAtEveryStep kills an agent that goes from one version of a policy to another, before
// every step that it takes: messages to the kernel, and calls that write its state. Whatever was
// done by then, one of the two is in force as a whole, the state on disk is one of the two as well,
// and the next agent goes on from there. All the while nothing is open that no version allows, and
// nothing is cut that all do.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	generation := int64(1)
	f.widen(generation)
	_, stop := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == generation })
	stop()
	defer f.neverOpens(82)()
	defer f.neverCut()()
	victim := func(at moment) (map[string]int, bool) {
		t.Helper()
		dir := t.TempDir()
		log, err := os.Create(filepath.Join(dir, "log"))
		check(t, err)
		cmd := exec.Command(os.Args[0], "-test.run=^TestAgentVictim$")
		// An agent that is killed does not tidy up.
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, fmt.Sprintf("%s=%s %s %d", victimEnv, f.host.Path(), f.dir, generation))
		cmd.Stdout, cmd.Stderr = log, log
		taken, killed, err := killBefore(cmd, at, f.dir)
		if said, readErr := os.ReadFile(log.Name()); err != nil {
			t.Fatalf("%v; it says %s, %v", err, said, readErr)
		}
		check(t, log.Close())
		return taken, killed
	}
	// Which steps there are says a victim that is let live.
	generation++
	all, killed := victim(moment{})
	var moments []moment
	for _, step := range []string{"send", "open", "write", "sync", "rename"} {
		if killed || all[step] == 0 {
			t.Fatalf("a whole run has no step %q: %v", step, all)
		}
		stride := 1
		if !tier.Long() {
			stride = (all[step] + mostKills - 1) / mostKills
		}
		for n := 1; n <= all[step]; n += stride {
			moments = append(moments, moment{step, n})
		}
	}
	left, kills := map[bool]int{}, map[string]int{}
	for _, at := range moments {
		generation++
		if _, killed := victim(at); !killed { // it has taken fewer of these than the first one
			continue
		}
		kills[at.step]++
		store, err := disk.Open(f.dir)
		check(t, err)
		kept, err := store.Load()
		if err != nil || kept == nil || len(kept.Computed.Policies) != 1 || kept.Computed.Policies[0].Generation < generation-2 {
			t.Fatalf("killed before %s: kept %+v, %v", at, kept, err)
		}
		if !f.reaches(80) || f.open(82) {
			t.Fatalf("killed before %s: neither of the two is in force", at)
		}
		// Without time to answer an open port counts as closed, and the older version as the newer.
		newer := f.openWithin(81, 2*time.Second) == (generation%2 == 0)
		left[newer]++
		// Without the controller the next agent goes on from there, and not back.
		f.source.away.Store(true)
		alone, stop := f.start()
		f.eventually("what was kept is in force", func() bool { return alone.Status().State == agent.StateKept })
		if even := generation%2 == 0; newer && (even && !f.reaches(81) || !even && f.open(81)) {
			t.Fatalf("killed before %s: the next agent has gone back behind the rules of the kernel", at)
		}
		stop()
		f.source.away.Store(false)
		f.widen(generation)
		_, stop = f.start()
		f.eventually("the next agent enforces", func() bool { return f.reports.of("p").Generation == generation })
		stop()
		if even := generation%2 == 0; !f.reaches(80) || even && !f.reaches(81) || !even && f.open(81) {
			t.Fatalf("killed before %s: the next agent does not enforce the policy", at)
		}
	}
	t.Logf("it was killed before %v of %v; was the new version in force: %v", kills, all, left)
	for step := range all {
		if kills[step] == 0 {
			t.Errorf("it was never killed before a %s", step)
		}
	}
	if left[true] == 0 || left[false] == 0 {
		t.Error("the kill never came at another moment")
	}
}
