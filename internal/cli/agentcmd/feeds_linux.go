package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/utils/clock"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/agent/localpods"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/packetlog"
	"github.com/nephele-io/nephele/internal/agent/pods"
	"github.com/nephele-io/nephele/internal/agent/traffic"
)

// learnNames learns the addresses of names until ctx ends. Policies are enforced also where that
// fails.
func learnNames(ctx context.Context, n *fqdn.Names, log logr.Logger) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { n.Run(ctx) })
	q, err := kernel.OpenQueue()
	if err == nil {
		stop := context.AfterFunc(ctx, q.Close)
		defer stop()
		err = q.Run(n.Answer)
	}
	if err != nil {
		n.Fail(err)
		log.Error(err, "The answers of resolvers cannot be received; names that are no patterns are looked up")
		<-ctx.Done()
	}
}

// pods returns what follows the Pods of the Node.
func (f *agentFlags) pods(c *cluster, served localpods.Server, log logr.Logger) (*pods.Pods, error) {
	var ranges []netip.Prefix
	for _, text := range f.podRanges {
		r, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--pod-cidr %q: %w", text, err)
		}
		ranges = append(ranges, r.Masked())
	}
	wiring, err := kernel.OpenWiring()
	if err != nil {
		return nil, err
	}
	local := localpods.New(localpods.Options{Server: served, Cluster: pods.OfNode(c, f.kubeNode), Node: f.kubeNode, Clock: clock.RealClock{}, Log: log.WithName("pods")})
	return pods.New(pods.Options{
		Node: f.kubeNode, Cluster: c, Local: local, Ranges: ranges, Own: conntrack.LocalAddresses,
		Bypass: wiring.Bypass, Bridge: wiring.Bridge, Settings: wiring.Settings, IPVS: wiring.IPVS, Log: log.WithName("pods"),
	}), nil
}

// clusterResolvers returns what follows the DNS servers of Pods; nil if that is not wanted.
func (f *agentFlags) clusterResolvers(c *cluster) (*fqdn.ClusterResolvers, error) {
	if f.dnsService == "" {
		return nil, nil
	}
	namespace, name, ok := strings.Cut(f.dnsService, "/")
	if !ok || namespace == "" || name == "" {
		return nil, fmt.Errorf("--dns-service %q: want NAMESPACE/NAME", f.dnsService)
	}
	return fqdn.FollowResolvers(c, namespace, name), nil
}

// withCluster returns the resolvers of the host and of the cluster.
func withCluster(own func() ([]netip.Addr, error), cluster *fqdn.ClusterResolvers) func() ([]netip.Addr, error) {
	return func() ([]netip.Addr, error) {
		found, err := own()
		behind, missing := cluster.Addresses()
		return append(found, behind...), errors.Join(err, missing)
	}
}

// packetLog returns what writes the log; nil for none.
func (f *agentFlags) packetLog() (*packetlog.Log, error) {
	format := packetlog.Format(f.logFormat)
	switch {
	case format != packetlog.JSON && format != packetlog.Antrea:
		return nil, fmt.Errorf("--log-format %q: want %q or %q", f.logFormat, packetlog.JSON, packetlog.Antrea)
	case f.logFile == "":
		return nil, nil
	}
	out := &lumberjack.Logger{Filename: f.logFile, MaxSize: 100, MaxBackups: 3} // of mode 0600
	return &packetlog.Log{Host: f.key(), Format: format, Out: out, Clock: clock.RealClock{}}, nil
}

// followLog receives what rules log until ctx ends, and has written what policies want logged and
// recorded what was denied. Each of the two may be nil. Policies are enforced also where it fails.
func followLog(ctx context.Context, l *packetlog.Log, t *traffic.Recorder, log logr.Logger) {
	var running sync.WaitGroup
	defer running.Wait()
	if l != nil {
		running.Go(func() { l.Run(ctx) })
	}
	r, err := kernel.OpenLog()
	if err == nil {
		stop := context.AfterFunc(ctx, r.Close)
		defer stop()
		err = r.Run(func(p kernel.Logged, lost uint32) {
			if l != nil {
				l.Packet(p, lost)
			}
			if t != nil {
				t.Denied(p, lost)
			}
		})
	}
	if err != nil {
		if l != nil {
			l.Fail(err)
		}
		if t != nil {
			t.Fail(err)
		}
		log.Error(err, "What rules log cannot be received: no lines are written of what policies want logged, and nothing is told of what is denied")
		<-ctx.Done()
	}
}

// recordTraffic receives the events of connections until ctx ends, and sends what was recorded.
// Policies are enforced also where it fails.
func recordTraffic(ctx context.Context, t *traffic.Recorder, key string, send func(context.Context, *analysis.TrafficReport) error, log logr.Logger) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		t.Run(ctx, conntrack.Accounting, func(ctx context.Context, r *analysis.TrafficReport) error {
			r.Name = key
			return send(ctx, r)
		})
	})
	r, err := conntrack.OpenEvents()
	if err == nil {
		stop := context.AfterFunc(ctx, r.Close)
		defer stop()
		err = r.Run(t.Event, t.Overrun, t.Unended)
	}
	if err != nil {
		t.Fail(err)
		log.Error(err, "Connections cannot be followed; of traffic only what is denied is told")
		<-ctx.Done()
	}
}
