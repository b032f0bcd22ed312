//go:build linux

package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/seed"
	"github.com/nephele-io/nephele/internal/tier"
)

// servantEnv tells a process of this test that it is an agent that obeys its standard input: its
// network namespace, the directory of its state, the generation of the policy that it is to
// enforce, and whether the controller is away.
const servantEnv = "NEPHELE_TEST_AGENT_SERVANT"

// saysMark begins the lines in which a servant says how it stands.
const saysMark = "servant: "

// TestAgentServant is an agent in a process of its own, which lives until it is killed or told to
// stop.
func TestAgentServant(t *testing.T) {
	words := strings.Fields(os.Getenv(servantEnv))
	if len(words) != 4 {
		return // TestAnySequence runs it
	}
	f, a, end := agentOfProcess(t, words[0], words[1], words[2], func(f *fixture) { f.source.away.Store(words[3] == "true") })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	orders := make(chan []string)
	go func() {
		defer close(orders)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			orders <- strings.Fields(lines.Text())
		}
	}()
	for said := ""; ; {
		select {
		case order, told := <-orders:
			switch {
			case !told || order[0] == "stop":
				cancel()
				check(t, <-done)
				end()
				return
			case order[0] == "policy":
				n, err := strconv.ParseInt(order[1], 10, 64)
				check(t, err)
				f.widen(n)
			case order[0] == "near":
				f.source.away.Store(false)
			case order[0] == "release":
				if err := a.Release(time.Now().Add(time.Hour)); err != nil {
					fmt.Println("the release is not kept:", err) // without room on the disk
				}
			case order[0] == "enforce":
				if err := a.Release(time.Time{}); err != nil {
					fmt.Println("the end of the release is not kept:", err)
				}
			}
		case err := <-done:
			fmt.Println("the agent has ended:", err)
			t.FailNow()
		case <-time.After(5 * time.Millisecond):
			p := f.reports.of("p")
			if now := fmt.Sprintf("%s %d %t", a.Status().State, p.Generation, p.RealizationFailure); now != said {
				said = now
				fmt.Println(saysMark + now)
			}
		}
	}
}

// servant is a running TestAgentServant.
type servant struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	ended  chan struct{}

	mu   sync.Mutex
	says string
	all  strings.Builder
}

// sequence is a host that somebody plays with.
type sequence struct {
	*fixture
	random *rand.Rand
	agent  *servant
	// wanted is the last generation of the policy, sure the last one that was said to be in force.
	wanted, sure int64
	filler       string
	played       []string
	// unguard ends looking whether a port opens or closes that must not; tries counts.
	unguard func()
	tries   int
}

func (s *sequence) serve(away bool) {
	s.t.Helper()
	a := &servant{cmd: exec.Command(os.Args[0], "-test.run=^TestAgentServant$", "-test.timeout=10m"), ended: make(chan struct{})}
	a.cmd.Env = append(os.Environ(), "TMPDIR="+s.t.TempDir(), fmt.Sprintf("%s=%s %s %d %t", servantEnv, s.host.Path(), s.dir, s.wanted, away))
	out, err := a.cmd.StdoutPipe()
	check(s.t, err)
	a.cmd.Stderr = a.cmd.Stdout
	a.orders, err = a.cmd.StdinPipe()
	check(s.t, err)
	check(s.t, a.cmd.Start())
	go func() {
		defer close(a.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			a.mu.Lock()
			if says, ok := strings.CutPrefix(lines.Text(), saysMark); ok {
				a.says = says
			}
			fmt.Fprintln(&a.all, lines.Text())
			a.mu.Unlock()
		}
		_ = a.cmd.Wait() // it is killed
	}()
	s.agent = a
	s.t.Cleanup(s.kill)
}

// order tells the agent to do something.
func (s *sequence) order(format string, args ...any) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.agent.orders, format+"\n", args...); err != nil {
		s.t.Fatalf("%s: %v; it said %s", fmt.Sprintf(format, args...), err, s.agent.output())
	}
}

func (a *servant) output() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all.String()
}

// kill ends the agent as kill -9 does.
func (s *sequence) kill() {
	_ = s.agent.cmd.Process.Kill()
	<-s.agent.ended
}

func (s *sequence) stop() {
	s.t.Helper()
	s.order("stop")
	<-s.agent.ended
	if code := s.agent.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Fatalf("the agent ended with %d: %s", code, s.agent.output())
	}
}

// said waits until the agent says that it stands so.
func (s *sequence) said(what string, ok func(state agent.State, generation int64, failed bool) bool) {
	s.t.Helper()
	s.eventually(what, func() bool {
		s.agent.mu.Lock()
		says := s.agent.says
		s.agent.mu.Unlock()
		select {
		case <-s.agent.ended:
			s.t.Fatalf("the agent has ended: %s", s.agent.output())
		default:
		}
		var state agent.State
		var generation int64
		var failed bool
		_, err := fmt.Sscan(says, &state, &generation, &failed)
		return err == nil && ok(state, generation, failed)
	})
}

// enforced waits until the last policy is in force, and looks whether it is.
func (s *sequence) enforced() {
	s.t.Helper()
	s.said(fmt.Sprintf("generation %d is in force", s.wanted), func(state agent.State, generation int64, failed bool) bool {
		return state == agent.StateEnforcing && generation == s.wanted && !failed
	})
	s.sure = s.wanted
	s.look()
}

// look compares packets with what may be in force: one of the versions from the last one that was
// said to be to the last one that there is.
func (s *sequence) look() {
	s.t.Helper()
	if !s.reaches(80) {
		s.t.Fatalf("port 80 is cut after %q; the agent said %s", s.played, s.agent.output())
	}
	if s.open(82) {
		s.t.Fatalf("port 82 is open after %q; the agent said %s", s.played, s.agent.output())
	}
	if s.sure != s.wanted {
		return // then either may be
	}
	if even := s.sure%2 == 0; even && !s.reaches(81) || !even && s.open(81) {
		s.t.Fatalf("generation %d is not in force after %q; the agent said %s", s.sure, s.played, s.agent.output())
	}
}

// guard looks all the time whether a port opens or closes that must not, until unguard is called.
func (s *sequence) guard() {
	s.t.Helper()
	open, cut := s.keepsClosed(82), s.neverCut()
	s.unguard = func() { s.tries += open(); cut() }
}

// room fills the disk of the agent or frees it.
func (s *sequence) room(free bool) {
	s.t.Helper()
	if free {
		if err := os.Remove(s.filler); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.t.Fatal(err)
		}
		return
	}
	f, err := os.OpenFile(s.filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	check(s.t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	check(s.t, f.Close())
}

// moves are what may happen to a host.
var moves = []struct {
	name string
	do   func(s *sequence)
}{
	{"a new policy", func(s *sequence) {
		s.wanted++
		s.order("policy %d", s.wanted)
		s.enforced()
	}},
	{"a kill", func(s *sequence) {
		s.kill()
		s.look()
		s.serve(false)
		s.enforced()
	}},
	{"a kill while a policy comes", func(s *sequence) {
		s.wanted++
		s.order("policy %d", s.wanted)
		time.Sleep(time.Duration(s.random.IntN(30)) * time.Millisecond) // at any moment of it
		s.kill()
		s.look()
		s.serve(false)
		s.enforced()
	}},
	{"a restart", func(s *sequence) {
		s.stop()
		s.look()
		s.serve(false)
		s.enforced()
	}},
	{"a kill while the controller is away", func(s *sequence) {
		s.kill()
		s.serve(true)
		s.said("it starts", func(state agent.State, _ int64, _ bool) bool {
			return state == agent.StateKept || state == agent.StateStarting
		})
		s.look()
		s.wanted++
		s.order("policy %d", s.wanted)
		s.look()
		s.order("near")
		s.enforced()
	}},
	{"a second agent", func(s *sequence) {
		var table *kernel.Table
		check(s.t, s.host.Do(func() (err error) { table, err = kernel.Open(kernel.DefaultTable); return err }))
		store, err := disk.Open(filepath.Join(s.t.TempDir(), "another"))
		check(s.t, err)
		second := agent.New(agent.Options{Key: s.key, Table: table, Store: store, Clock: clock.RealClock{}, Log: logr.Discard(), Reports: s.to,
			Follower: enforcer.Follower{Source: s.from, Clock: clock.RealClock{}, Log: logr.Discard()}})
		if err := second.Run(s.t.Context()); !errors.Is(err, kernel.ErrOwned) {
			s.t.Fatalf("the second agent ends with %v", err)
		}
		check(s.t, table.Close())
		s.look()
	}},
	{"a full disk", func(s *sequence) { s.room(false) }},
	{"room on the disk", func(s *sequence) { s.room(true) }},
	{"a release", func(s *sequence) {
		s.unguard()
		s.order("release")
		s.said("released", func(state agent.State, _ int64, failed bool) bool { return state == agent.StateReleased && failed })
		if !s.reaches(82) {
			s.t.Fatalf("port 82 is closed though the host is released, after %q", s.played)
		}
		s.order("enforce")
		s.enforced()
		s.guard()
	}},
	{"a lost power supply", func(s *sequence) {
		s.unguard()
		s.kill()
		check(s.t, s.host.Do(s.wipe))
		s.room(true) // what is on a disk that was full is what could be written
		s.serve(false)
		s.enforced()
		s.guard()
	}},
}

// TestAnySequence plays random sequences of what may happen to a host: whatever happens, nothing is
// ever open that no version of the policy in question allows, nothing is cut that all of them
// allow, and once the agent can do its work the last version is in force.
func TestAnySequence(t *testing.T) {
	t.Parallel()
	length := tier.Pick(8, 14, 60)
	first := seed.Of(t)
	for n := range tier.Pick(1, 1, 20) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := &sequence{fixture: newFixture(t), random: rand.New(rand.NewPCG(first, uint64(n))), wanted: 1}
			check(t, os.MkdirAll(s.dir, 0o700))
			if err := unix.Mount("none", s.dir, "tmpfs", 0, "size=256k"); err != nil {
				t.Skipf("THIS TEST DID NOT RUN: it mounts a file system, which only root can do: %v", err)
			}
			t.Cleanup(func() { check(t, unix.Unmount(s.dir, 0)) })
			s.filler = filepath.Join(s.dir, "filler")
			s.serve(false)
			s.enforced()
			s.guard()
			for range length {
				m := moves[s.random.IntN(len(moves))]
				s.played = append(s.played, m.name)
				m.do(s)
			}
			s.room(true)
			s.unguard()
			s.stop()
			t.Logf("played %q, tried the closed port %d times", s.played, s.tries)
			if s.tries < length {
				t.Error("it was hardly tried")
			}
		})
	}
}
