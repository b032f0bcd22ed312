package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/serving"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

// worldStore holds the large world as a server of computed policies does.
func worldStore() *watchstore.Store {
	world := nfttest.World()
	members := func(list []v1beta2.GroupMember) (out []watchstore.Member) {
		for _, m := range list {
			out = append(out, &watchstore.GivenMember{GroupMember: m, Everywhere: true})
		}
		return out
	}
	var c watchstore.Changes
	for _, g := range enforcer.Objects(world.AddressGroups) {
		c.AddressGroups = append(c.AddressGroups, watchstore.GroupChange{Name: g.Name, Added: members(g.GroupMembers), SpanAdded: []string{hostKey}})
	}
	for _, g := range world.AppliedToGroups {
		c.AppliedToGroups = append(c.AppliedToGroups, watchstore.GroupChange{Name: g.Name, Added: members(g.GroupMembers), SpanAdded: []string{hostKey}})
	}
	for _, p := range world.Policies {
		c.Policies = append(c.Policies, watchstore.PolicyChange{Policy: p, SpanAdded: []string{hostKey}})
	}
	out := watchstore.New(watchstore.Options{})
	out.Publish(c)
	return out
}

// BenchmarkAgentProcess is nephele-agent itself, as a package brings it, in the large world, which
// a server tells it. It reports the memory that is resident when everything is enforced and a
// minute later, when the agent has written its state, the most that there was, and which part of a
// processor it uses in the minute after that, in which nothing happens but that it reads counters.
func BenchmarkAgentProcess(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "nephele-agent")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "./cmd/nephele-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatal(err, string(out))
	}
	host, peer := nfttest.NewHost(b), nfttest.NewHost(b)
	nfttest.Connect(b, host, peer, []netip.Prefix{netip.PrefixFrom(hostAddr, 24)}, []netip.Prefix{netip.PrefixFrom(peerAddr, 24)})
	access, err := apiserver.Closed()
	if err != nil {
		b.Fatal(err)
	}
	dir, err := certs.Open(b.TempDir(), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	cert, err := serving.Open(dir, []string{"policies"}, nil, clock.RealClock{})
	if err != nil {
		b.Fatal(err)
	}
	var listener net.Listener
	if err := peer.Do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(peerAddr, 0).String())
		return err
	}); err != nil {
		b.Fatal(err)
	}
	reported := &reports{last: map[string]v1beta2.NetworkPolicyNodeStatus{}}
	server, err := apiserver.New(
		apiserver.Options{Listener: listener, Certificate: cert, Access: access.WithEnforcer("token"), Store: worldStore(), Reports: reported, Logger: logr.Discard()},
	)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Start(ctx) }()
	b.Cleanup(func() { cancel(); <-served })
	files := b.TempDir()
	kubeconfig, to := filepath.Join(files, "kubeconfig"), server.EnforcerConfig("token", "policies")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"it": {Server: to.Host, TLSServerName: to.ServerName, CertificateAuthorityData: to.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"it": {Token: to.BearerToken}},
		Contexts:  map[string]*clientcmdapi.Context{"it": {Cluster: "it", AuthInfo: "it"}}, CurrentContext: "it",
	}, kubeconfig); err != nil {
		b.Fatal(err)
	}
	for range b.N {
		state, log := filepath.Join(files, "state"), &bytes.Buffer{}
		cmd := exec.Command(binary, "--external-node", hostKey, "--kubeconfig", kubeconfig, "--state-dir", state,
			"--log-file", filepath.Join(files, "policies.log"), "--socket", filepath.Join(files, "agent.sock"), "--metrics", "0")
		cmd.Stdout, cmd.Stderr = log, log
		if err := host.Do(cmd.Start); err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		for reported.count() < nfttest.WorldPolicies && time.Since(begun) < 3*time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		b.ReportMetric(time.Since(begun).Seconds(), "s-until-reported")
		b.ReportMetric(memoryOf(b, cmd.Process.Pid, "VmRSS"), "then-MB")
		time.Sleep(time.Minute)
		for _, of := range []string{"VmRSS", "RssAnon", "VmHWM"} {
			b.ReportMetric(memoryOf(b, cmd.Process.Pid, of), of+"-MB")
		}
		used := processorTime(b, cmd.Process.Pid)
		time.Sleep(time.Minute)
		b.ReportMetric(100*(processorTime(b, cmd.Process.Pid)-used).Minutes(), "idle-%")
		b.ReportMetric(memoryOf(b, cmd.Process.Pid, "VmRSS"), "in-the-end-MB")
		if reported.count() < nfttest.WorldPolicies {
			b.Errorf("%d policies are reported; it says %s", reported.count(), log)
		}
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	b.ReportMetric(0, "ns/op")
}

func (r *reports) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.last)
}

// processorTime is what a process has used.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// The name, in parentheses, may have spaces. The 12th and 13th field after it are user and
	// system time, in hundredths of a second (proc(5)).
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var sum time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}

// memoryOf returns a line of the status of a process, in megabytes.
func memoryOf(b *testing.B, pid int, line string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		var kb float64
		if _, err := fmt.Sscanf(l, line+": %f kB", &kb); err == nil {
			return kb * 1024 / 1e6
		}
	}
	b.Fatalf("no %s of %d", line, pid)
	return 0
}
