package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

// startEtcd starts the member of a data directory, which others reach if it is one of several, on a
// free loopback port and waits until it serves.
func startEtcd(ctx context.Context, dir *dataDir, creds *credentials, p *peers, logger *zap.Logger) (*embed.Etcd, error) {
	there, err := dir.hasDatabase()
	if err == nil && !there && (p == nil || p.joining == nil) {
		err = foundEtcd(ctx, dir, creds, logger)
	}
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	e, err := serveEtcd(ctx, dir.etcd(), creds, p, logger)
	if err != nil {
		return nil, err
	}
	if p != nil {
		err = p.settle(ctx, dir, e)
	}
	if err == nil {
		// For backups and "nephele hub"; it is no secret, for the door has a lock of its own.
		err = certs.WriteFile(filepath.Join(dir.path, addressFile), []byte(etcdURL(e)+"\n"), 0o600)
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	return e, nil
}

// memberName and peerURL name the only member. There are no peers, but a member must have an
// address.
const memberName = "nephele"

var peerURL = url.URL{Scheme: "http", Host: "localhost:2380"}

// foundEtcd makes the database. A member that is killed between making its log and writing itself
// into it never elects itself again. So the first one comes up beside the place where a database is
// looked for, and its directory is moved there once it has served and ended: what a process leaves
// that was killed before has never been written to, and is made anew.
func foundEtcd(ctx context.Context, dir *dataDir, creds *credentials, logger *zap.Logger) error {
	if err := os.RemoveAll(dir.unfounded()); err != nil {
		return err
	}
	e, err := serveEtcd(ctx, dir.unfounded(), creds, nil, logger)
	if err != nil {
		return err
	}
	e.Close()
	if err := errors.Join(os.Remove(dir.etcd()), os.Rename(dir.unfounded(), dir.etcd())); err != nil {
		return err
	}
	parent, err := os.Open(dir.path)
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// portAttempts bounds how often a port is chosen anew because somebody else was faster to take it.
const portAttempts = 5

// serveEtcd starts the member whose data is at path and waits until it serves.
func serveEtcd(ctx context.Context, path string, creds *credentials, p *peers, logger *zap.Logger) (*embed.Etcd, error) {
	for attempt := 1; ; attempt++ {
		address, err := freeAddress()
		if err != nil {
			return nil, fmt.Errorf("start etcd: %w", err)
		}
		e, err := serveEtcdAt(ctx, address, path, creds, p, logger)
		if err == nil || attempt == portAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return e, err
		}
	}
}

// freeAddress returns a loopback address with a port that no one has at this moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// connectionBuffer is how many bytes are read at once from a client. A version of an object is
// rarely larger.
const connectionBuffer = 4 << 10

// serveEtcdAt is serveEtcd on a certain address.
func serveEtcdAt(ctx context.Context, address, path string, creds *credentials, p *peers, logger *zap.Logger) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Name = memberName
	cfg.Dir = path
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	cfg.Logger = "zap"
	cfg.EnableGRPCGateway = false
	// Zero, the default of the embedded server, would log every request as slow.
	cfg.WarningUnaryRequestDuration = 300 * time.Millisecond
	// With a single member no one else can be elected; short ticks only shorten the wait for
	// oneself.
	cfg.TickMs, cfg.ElectionMs = 50, 250
	// Until a snapshot is made, every request stays in memory. There is no follower that could have
	// missed one. But a member that starts applies again what came after its last snapshot, and
	// looks through all of that once more when it elects itself: it gives up if some of it is gone
	// from memory by then.
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 1000, 2000
	// A client that watches kinds that seldom change gets recent versions in time: older ones are
	// soon compacted, and it would have to list everything again.
	cfg.WatchProgressNotifyInterval = 20 * time.Second
	// What was is of use to no one for longer, and takes memory.
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, "1m"

	// The API server opens a connection per resource, more than a hundred, and most have nothing to
	// say: the buffers that gRPC gives each by default keep 5 MB alive.
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ReadBufferSize(connectionBuffer), grpc.SharedWriteBuffer(true)}

	anyPort := url.URL{Scheme: "https", Host: "127.0.0.1:0"}
	// On one port gRPC goes through an HTTP server, which costs half as much again as gRPC does
	// itself. No one asks for anything by HTTP, but it must have an address.
	cfg.ListenClientUrls = []url.URL{{Scheme: "https", Host: address}}
	cfg.ListenClientHttpUrls = []url.URL{anyPort}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile:       creds.store.CertFile(etcdServerCert),
		KeyFile:        creds.store.KeyFile(etcdServerCert),
		TrustedCAFile:  creds.store.CertFile(etcdAuthority),
		ClientCertAuth: true,
	}
	// Without peers no port for them is opened; a member must have an address all the same.
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = []url.URL{peerURL}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	if p != nil {
		p.configure(cfg, creds)
	}

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
	case <-e.Server.StopNotify():
		e.Close()
		return nil, fmt.Errorf("start etcd: %w", errRemoved)
	case <-ctx.Done():
		e.Close()
		return nil, fmt.Errorf("start etcd: %w", ctx.Err())
	}
}

// etcdURL is where e serves its client.
func etcdURL(e *embed.Etcd) string {
	served := e.Config().ListenClientUrls
	return served[0].String()
}
