package kernel_test

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// logged collects what is logged on a host.
type logged struct {
	mu   sync.Mutex
	list []kernel.Logged
	lost uint32
}

// waitFor waits for a logged packet and returns it.
func (l *logged) waitFor(t *testing.T, want func(kernel.Logged) bool) kernel.Logged {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		l.mu.Lock()
		for _, p := range l.list {
			if want(p) {
				l.mu.Unlock()
				return p
			}
		}
		l.mu.Unlock()
	}
	t.Fatal("it is not logged")
	return kernel.Logged{}
}

// TestLog makes connections that rules log, of which one is flooded, and one that no rule logs.
func TestLog(t *testing.T) {
	l := newLab(t)
	rule := func(port int, action v1beta2.RuleAction, log bool) v1beta2.NetworkPolicyRule {
		tcp, udp, n := v1beta2.ProtocolTCP, v1beta2.ProtocolUDP, intstr.FromInt(port)
		return v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Name: nameOf(action, log), Action: &action, EnableLogging: log, LogLabel: "label", Priority: int32(port),
			From:     v1beta2.NetworkPolicyPeer{IPBlocks: []v1beta2.IPBlock{{CIDR: v1beta2.IPNet{IP: make([]byte, 4)}}, {CIDR: v1beta2.IPNet{IP: make([]byte, 16)}}}},
			Services: []v1beta2.Service{{Protocol: &tcp, Port: &n}, {Protocol: &udp, Port: &n}}}
	}
	tier, priority := int32(250), 1.0
	computed := enforcer.Computed{
		AppliedToGroups: []*v1beta2.AppliedToGroup{{ObjectMeta: metav1.ObjectMeta{Name: "host"},
			GroupMembers: []v1beta2.GroupMember{{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "n0", Name: "e0"}}}}},
		Policies: []*v1beta2.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "uid"}, TierPriority: &tier, Priority: &priority, AppliedToGroups: []string{"host"},
			SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "n0", Name: "p", UID: "uid"},
			Rules:     []v1beta2.NetworkPolicyRule{rule(80, v1beta2.RuleActionAllow, true), rule(81, v1beta2.RuleActionDrop, true), rule(82, v1beta2.RuleActionAllow, false)}}},
	}
	program := new(nft.Compiler).Compile(nft.Input{Computed: computed}).Program
	if _, err := l.table.Apply(program); err != nil {
		t.Fatal(err)
	}
	if differs, err := l.table.Verify(program); err != nil || len(differs) > 0 {
		t.Fatalf("the kernel holds something else: %v %v", differs, err)
	}
	var reader *kernel.LogReader
	if err := l.host.Do(func() (err error) { reader, err = kernel.OpenLog(); return err }); err != nil {
		t.Fatal(err)
	}
	var got logged
	ended := make(chan error, 1)
	go func() {
		ended <- reader.Run(func(p kernel.Logged, lost uint32) {
			got.mu.Lock()
			defer got.mu.Unlock()
			got.list, got.lost = append(got.list, p), got.lost+lost
		})
	}()
	t.Cleanup(func() {
		reader.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := l.host.Do(func() error { _, err := kernel.OpenLog(); return err }); !errors.Is(err, kernel.ErrLog) {
		t.Errorf("a second reader: %v", err)
	}
	try := func(network string, source, destination netip.Addr, port uint16, limit time.Duration) nfttest.Result {
		a := nfttest.Attempt{From: l.peers, Network: network, Source: netip.AddrPortFrom(source, uint16(l.port.Add(1))), Destination: netip.AddrPortFrom(destination, port)}
		r, err := a.Run(limit)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	try("tcp", peers4[0], local4, 82, patient) // not logged
	try("tcp", peers4[0], local4, 80, patient)
	try("tcp", peers6[1], local6, 80, patient)
	for _, source := range []netip.Addr{peers4[0], peers6[1]} {
		p := got.waitFor(t, func(p kernel.Logged) bool { return p.Source == source && p.Port == 80 })
		if o := program.Logs()[p.Rule]; o.Name != "Allow logged" || o.Policy.Name != "p" || o.Logged.Action != v1beta2.RuleActionAllow || o.Logged.Direction != ruleset.Ingress ||
			o.Logged.Label != "label" || p.Protocol != ruleset.TCP || p.SourcePort < 20000 || p.Length < 40 {
			t.Errorf("%+v by %+v", p, o)
		}
	}
	const flood = 3000
	begun := time.Now()
	err := l.peers.Do(func() error {
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(peers4[2], 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(local4, 81)))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		for range flood {
			if _, err := c.Write([]byte("x")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	most := kernel.LogBurst + kernel.LogRate*int(1+time.Since(begun)/time.Second)
	got.waitFor(t, func(p kernel.Logged) bool { return p.Source == peers4[2] && p.Port == 81 && p.Protocol == ruleset.UDP })
	got.mu.Lock()
	defer got.mu.Unlock()
	flooded := 0
	for _, p := range got.list {
		if p.Port == 82 {
			t.Errorf("a packet is logged that no rule wants logged: %+v", p)
		}
		if p.Port == 81 {
			flooded++
		}
	}
	if flooded > most {
		t.Errorf("%d of %d packets of a flood are logged, want at most %d", flooded, flood, most)
	}
	t.Logf("%d of %d packets of a flood are logged, %d lost", flooded, flood, got.lost)
}

func nameOf(a v1beta2.RuleAction, log bool) string {
	if log {
		return string(a) + " logged"
	}
	return string(a)
}
