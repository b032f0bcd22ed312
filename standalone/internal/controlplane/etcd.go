package controlplane

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// startEtcd starts a cluster of one member on a free loopback port and waits until it serves.
func startEtcd(ctx context.Context, dir *dataDir, creds *credentials, logger *zap.Logger) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Name = "nephele"
	cfg.Dir = dir.etcd()
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	cfg.Logger = "zap"
	cfg.EnableGRPCGateway = false
	// Zero, the default of the embedded server, would log every request as slow.
	cfg.WarningUnaryRequestDuration = 300 * time.Millisecond
	// With a single member nobody else can be elected; short ticks only shorten the wait for
	// oneself.
	cfg.TickMs, cfg.ElectionMs = 50, 250
	// Until a snapshot is made, every request stays in memory. There is no follower who could have
	// missed one. But a member that starts applies again what came after its last snapshot, and
	// looks through all of that once more when it elects itself: it gives up if some of it is gone
	// from memory by then.
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 1000, 2000
	// Who watches kinds that seldom change learns in time which version he has seen: older ones are
	// soon gone, and he would have to list everything again.
	cfg.WatchProgressNotifyInterval = 20 * time.Second

	anyPort := url.URL{Scheme: "https", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls = []url.URL{anyPort}
	cfg.AdvertiseClientUrls = []url.URL{anyPort}
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile:       creds.store.CertFile(etcdServerCert),
		KeyFile:        creds.store.KeyFile(etcdServerCert),
		TrustedCAFile:  creds.store.CertFile(etcdAuthority),
		ClientCertAuth: true,
	}
	// There are no peers, so no port for them is opened; a member must have an address all the
	// same.
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "localhost:2380"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)

	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		e.Close()
		return nil, fmt.Errorf("start etcd: %w", err)
	case <-ctx.Done():
		e.Close()
		return nil, fmt.Errorf("start etcd: %w", ctx.Err())
	}
}

// etcdURL is where e serves its client.
func etcdURL(e *embed.Etcd) string { return "https://" + e.Clients[0].Addr().String() }
