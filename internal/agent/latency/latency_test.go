package latency_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	stats "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/latency"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// TestMonitor measures to a Node that answers, in both families, and to one that does not; and
// nothing without a NodeLatencyMonitor.
func TestMonitor(t *testing.T) {
	here, there := nfttest.NewHost(t), nfttest.NewHost(t)
	at := func(list ...string) (out []netip.Prefix) {
		for _, x := range list {
			out = append(out, netip.MustParsePrefix(x))
		}
		return out
	}
	nfttest.Connect(t, here, there, at("192.168.1.1/24", "2001:db8::1/64"), at("192.168.1.2/24", "2001:db8::2/64"))
	if err := here.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0o644) }); err != nil {
		t.Fatal(err)
	}
	monitors, nodes := fcache.NewFakeControllerSource(), fcache.NewFakeControllerSource()
	for name, list := range map[string][]string{"here": {"192.168.1.1"}, "there": {"192.168.1.2", "2001:db8::2"}, "away": {"192.168.1.3"}} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, a := range list {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		nodes.Add(n)
	}
	var sockets atomic.Int32
	reports := make(chan *stats.NodeLatencyStats, 100)
	m := latency.New(latency.Options{Node: "here", Monitors: monitors, Nodes: nodes, Clock: clock.RealClock{}, Log: logr.Discard(),
		Listen: func(six bool) (c net.PacketConn, err error) {
			sockets.Add(1)
			outer := here.Do(func() error { c, err = latency.Listen(six); return nil })
			if outer != nil {
				err = outer
			}
			return c, err
		},
		Report: func(_ context.Context, s *stats.NodeLatencyStats) error { reports <- s; return nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { m.Run(ctx) })
	defer func() { cancel(); done.Wait() }()
	of := &v1alpha1.NodeLatencyMonitor{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.NodeLatencyMonitorSpec{PingIntervalSeconds: 1}}
	monitors.Add(of)
	select {
	case s := <-reports:
		t.Fatalf("measured without a NodeLatencyMonitor: %+v", s)
	case <-time.After(2500 * time.Millisecond): // two looks
	}
	if sockets.Load() != 0 {
		t.Fatal("a socket is open without a NodeLatencyMonitor")
	}
	one := of.DeepCopy()
	one.Name = "default"
	monitors.Add(one)
	deadline := time.After(time.Minute)
	for {
		var s *stats.NodeLatencyStats
		select {
		case s = <-reports:
		case <-deadline:
			t.Fatal("nothing was measured")
		}
		got := map[string]int64{}
		for _, p := range s.PeerNodeLatencyStats {
			for _, x := range p.TargetIPLatencyStats {
				if x.LastSendTime.IsZero() || x.LastRecvTime.IsZero() != (x.LastMeasuredRTTNanoseconds == 0) {
					t.Errorf("%+v", x)
				}
				got[p.NodeName+" "+x.TargetIP] = x.LastMeasuredRTTNanoseconds
			}
		}
		if s.Name != "here" || len(got) != 3 || got["away 192.168.1.3"] != 0 {
			t.Fatalf("%s: %v", s.Name, got)
		}
		if got["there 192.168.1.2"] > 0 && got["there 2001:db8::2"] > 0 {
			break
		}
	}
	monitors.Delete(one)
	quiet := time.Now()
	for before := sockets.Load(); ; {
		select {
		case <-reports:
			if time.Since(quiet) > 5*time.Second {
				t.Fatal("measured after the NodeLatencyMonitor has gone")
			}
			continue
		case <-time.After(3 * time.Second):
		}
		if sockets.Load() != before {
			t.Fatal("sockets are opened again")
		}
		break
	}
}
