package agent_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/agent/fqdn/fqdntest"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// askFrom asks a resolver for a name, from a host of a lab. By TCP the answer comes in as many
// segments as the resolver sends.
func askFrom(t *testing.T, from *nfttest.Host, network string, at netip.Addr, name string) error {
	t.Helper()
	question := fqdntest.Message(t, 7, name, 0)
	question[2] &^= 0x80 // which is no answer
	return from.Do(func() error {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial(network, netip.AddrPortFrom(at, 53).String())
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return err
		}
		var answer []byte
		if network == "udp" {
			answer = make([]byte, 1500)
			if _, err = c.Write(question); err == nil {
				var n int
				n, err = c.Read(answer)
				answer = answer[:n]
			}
		} else if _, err = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...)); err == nil {
			var size [2]byte
			if _, err = io.ReadFull(c, size[:]); err == nil {
				answer = make([]byte, binary.BigEndian.Uint16(size[:]))
				_, err = io.ReadFull(c, answer)
			}
		}
		if err != nil {
			return err
		}
		var p dnsmessage.Parser
		if _, err := p.Start(answer); err != nil {
			return err
		}
		return p.SkipAllQuestions()
	})
}

// TestNamesOfPods asks resolvers for names that policies on Pods name, from Pods on a bridge and
// behind routes, by UDP and by TCP in segments, and connects at once: to a resolver elsewhere, to
// one that is a Pod of the same Node, and to one on the Node.
func TestNamesOfPods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	l, client := onNode(f, nil)
	for n := range nfttest.PodCount {
		if _, err := client.CoreV1().Pods(nfttest.PodRef(n).Namespace).Create(t.Context(), pod(n), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	outside, inPod, onHost := l.Peers4[3], nfttest.PodAddresses(1)[0], nfttest.NodeAddresses()[0]
	target, other := netip.MustParseAddr("192.168.0.2"), netip.MustParseAddr("192.168.0.3") // of the peers
	zone := map[string][]fqdntest.Record{"x.evil.example": {{Name: "x.evil.example", Value: other.String()}}}
	type round struct {
		who      int
		network  string
		resolver netip.Addr
		name     string
	}
	var rounds []round
	for _, who := range []int{0, 2} {
		for where, resolver := range []netip.Addr{outside, inPod, onHost} {
			for _, network := range []string{"udp", "tcp"} {
				name := fmt.Sprintf("%d-%s-%d.good.example", where, network, who)
				rounds = append(rounds, round{who, network, resolver, name})
				for try := range 5 {
					asked := fmt.Sprintf("a%d.%s", try, name)
					zone[asked] = []fqdntest.Record{{Name: asked, Value: target.String()}}
				}
			}
		}
	}
	serveZone(t, l.Peers, outside, zone)
	serveZone(t, l.Pods[1], inPod, zone)
	serveZone(t, l.Node, onHost, zone)

	var queue *kernel.Queue
	if err := l.Node.Do(func() (err error) { queue, err = kernel.OpenQueue(); return err }); err != nil {
		t.Fatal(err)
	}
	f.names = fqdn.New(fqdn.Options{Clock: clock.RealClock{}, Resolvers: func() ([]netip.Addr, error) { return []netip.Addr{outside, inPod, onHost}, nil },
		LookUp: func(context.Context, string) ([]netip.Addr, error) { return nil, fmt.Errorf("no look-ups") }})
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(f.names.Answer) }()
	t.Cleanup(func() {
		queue.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	running, end := context.WithCancel(t.Context())
	found := make(chan struct{})
	go func() {
		defer close(found)
		f.names.Run(running)
	}()
	t.Cleanup(func() {
		end()
		<-found
	})
	a, _ := f.start()
	f.eventually("all Pods are known", func() bool { s := a.Status(); return s.Pods != nil && s.Pods.Known == nfttest.PodCount })

	// Each round a policy with one name, so that what another has opened does not count.
	generation := int64(0)
	for _, r := range rounds {
		connect := func(to netip.Addr, limit time.Duration) bool {
			t.Helper()
			f.port++
			got, err := nfttest.Attempt{From: l.Pods[r.who], Network: "tcp", Source: netip.AddrPortFrom(nfttest.PodAddresses(r.who)[0], f.port), Destination: netip.AddrPortFrom(to, 90)}.Run(limit)
			if err != nil {
				t.Fatal(err)
			}
			return got == nfttest.Passed
		}
		// On a busy machine an answer may be let go before its time, or a connection take long.
		passed := false
		for try := 0; try < 5 && !passed; try++ {
			generation++
			name := fmt.Sprintf("a%d.%s", try, r.name)
			dns := policy.Rule{Name: "dns", Action: policy.Allow, Ports: []policy.Port{{Protocol: policy.UDP, Port: &policy.PortRef{Number: 53}}, {Protocol: policy.TCP, Port: &policy.PortRef{Number: 53}}}}
			f.engine.PutPolicy(policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: "names", UID: "names", Generation: generation, Priority: 5,
				AppliedTo: []policy.AppliedTo{{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": fmt.Sprint(r.who)}}}},
				Egress:    []policy.Rule{dns, {Name: "out", Action: policy.Allow, Peers: []policy.Peer{{FQDN: "*" + name[1:]}}}, {Name: "no", Action: policy.Drop}}})
			f.source.store.Publish(convert.Delta(f.engine.Commit()))
			f.eventually("enforced", func() bool {
				told := f.reports.of("names")
				return told.Generation == generation && !told.RealizationFailure
			})
			if connect(target, 200*time.Millisecond) {
				t.Fatalf("%s: reachable before its name is known", name)
			}
			for _, asked := range []string{"x.evil.example", name} {
				if err := askFrom(t, l.Pods[r.who], r.network, r.resolver, asked); err != nil {
					t.Errorf("%s: %s: %v", name, asked, err)
				}
			}
			passed = connect(target, 900*time.Millisecond) // a first packet that were lost would come again after a second
			if connect(other, 200*time.Millisecond) {
				t.Errorf("%s: an answer about another name has opened something", name)
			}
		}
		if !passed {
			t.Errorf("%s: not reachable as soon as its name is known: %+v", r.name, a.Status().Names)
		}
	}
	t.Logf("%d rounds took %d attempts", len(rounds), generation)
}
