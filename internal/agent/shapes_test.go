package agent_test

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/agent/network"
)

// annotate gives a Pod annotations.
func (p *netPod) annotate(annotations map[string]string) {
	s := p.node.site
	s.t.Helper()
	pods := s.client.CoreV1().Pods("n1")
	o, err := pods.Get(s.t.Context(), p.name, metav1.GetOptions{})
	s.must(err)
	o.Annotations = annotations
	_, err = pods.Update(s.t.Context(), o, metav1.UpdateOptions{})
	s.must(err)
}

// transfer sends bytes from a Pod to another one and returns how long it takes until all have come.
func (s *site) transfer(from, to *netPod, bytes int) (took time.Duration) {
	s.t.Helper()
	at := netip.AddrPortFrom(to.family(false), 9000).String()
	s.inside(to.Host, func() error {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		sent := make(chan error, 1)
		go func() {
			sent <- from.Do(func() error {
				c, err := net.DialTimeout("tcp", at, patient)
				if err == nil {
					_, err = c.Write(make([]byte, bytes))
					_ = c.Close()
				}
				return err
			})
		}()
		c, err := l.Accept()
		if err != nil {
			return err
		}
		begin := time.Now()
		if _, err = io.Copy(io.Discard, c); err == nil {
			err = <-sent
		}
		took = time.Since(begin)
		return err
	})
	return took
}

// TestBandwidth bounds what a Pod receives and sends, as its annotations say, over a restart of the
// agent, and no more when they are gone.
func TestBandwidth(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1}, cidrs: []string{"10.244.N.0/24"}, four: true})
	n := s.nodes[0]
	bound, free := n.pod("free"), n.pod("free")
	end := network.EndName(bound.container, "eth0")
	// bounds are the rates of the two links, and how many bytes have passed by the first.
	bounds := func() (in, out, passed uint64) {
		for _, name := range []string{end, network.BrakeName(end)} {
			l, err := n.host.Handle.LinkByName(name)
			if err != nil {
				continue
			}
			list, err := n.host.Handle.QdiscList(l)
			s.must(err)
			for _, q := range list {
				if tbf, is := q.(*netlink.Tbf); is && name == end {
					in, passed = tbf.Rate*8, tbf.Statistics.Basic.Bytes
				} else if is {
					out = tbf.Rate * 8
				}
			}
		}
		return in, out, passed
	}
	becomes := func(what string, in, out uint64) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for gotIn, gotOut, _ := bounds(); gotIn != in || gotOut != out; gotIn, gotOut, _ = bounds() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d and %d, want %d and %d", what, gotIn, gotOut, in, out)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	const bytes = 1 << 20
	bound.annotate(map[string]string{"kubernetes.io/ingress-bandwidth": "8M", "kubernetes.io/egress-bandwidth": "4M"})
	becomes("the annotations", 8e6, 4e6)
	// Whatever the machine does, they cannot be faster, but for what passes at once.
	if took := s.transfer(free, bound, bytes); took < 800*time.Millisecond {
		t.Errorf("1 MiB is received in %s", took)
	}
	if took := s.transfer(bound, free, bytes); took < 1600*time.Millisecond {
		t.Errorf("1 MiB is sent in %s", took)
	}
	_, _, before := bounds()
	n.ended()
	n.serve()
	written := n.agent.Status().Network.Written
	if in, out, after := bounds(); in != 8e6 || out != 4e6 || after < before || before == 0 || written != 0 {
		t.Errorf("after a restart: %d and %d, %d bytes passed before and %d now, %d steps", in, out, before, after, written)
	}
	bound.annotate(map[string]string{"kubernetes.io/ingress-bandwidth": "much", "kubernetes.io/egress-bandwidth": "2M"})
	becomes("other annotations", 0, 2e6)
	n.eventually("it says what is wrong", func() bool {
		return strings.Contains(strings.Join(n.agent.Status().Network.Problems, "\n"), `annotation kubernetes.io/ingress-bandwidth: "much"`)
	})
	bound.annotate(nil)
	becomes("no annotations", 0, 0)
	if _, err := n.host.Handle.LinkByName(network.BrakeName(end)); err == nil {
		t.Error("the link that slowed it down is there")
	}
	if took := s.transfer(bound, free, bytes); took > 10*time.Second {
		t.Errorf("1 MiB is sent in %s without a bound", took)
	}
	bound.annotate(map[string]string{"kubernetes.io/egress-bandwidth": "2M"})
	becomes("again", 0, 2e6)
	n.remove(bound)
	n.eventually("its link is gone", func() bool { _, err := n.host.Handle.LinkByName(end); return err != nil })
	becomes("a Pod that has gone", 0, 0)
}
