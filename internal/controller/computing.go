package controller

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/registration"
	"github.com/nephele-io/nephele/internal/apiserver/serving"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

// loopback is how the enforcers of this process reach its own server, which is set before anything
// runs.
type loopback struct {
	token  string
	server *apiserver.Server
	// certificate is what it serves with if others reach it, too.
	certificate atomic.Pointer[serving.Certificate]
}

func newLoopback() *loopback { return &loopback{token: rand.Text()} }

// config is an enforcer.ClientOptions.Config.
func (l *loopback) config() (*rest.Config, error) {
	return l.server.EnforcerConfig(l.token, apiServerName), nil
}

// policyClient is the enforcers' end of the computed API.
type policyClient struct {
	follower enforcer.Follower
	reports  *enforcer.Reporter
}

// newEnforcer returns the end of the computed API that enforcers of this process use: of the server
// of this process, of the replica that leads, or of a foreign one.
func newEnforcer(proc *process, mgr manager.Manager, parts *shares, clk clock.WithTicker) (policyClient, error) {
	config, quiet := proc.loopback.config, time.Duration(0)
	if parts != nil {
		config = func() (*rest.Config, error) {
			select {
			case <-mgr.Elected():
				return proc.loopback.config()
			default:
				return parts.leader(mgr.GetConfig())
			}
		}
	}
	if proc.Antrea != nil {
		config, quiet = proc.Antrea, enforcer.AntreaQuiet
	}
	if err := proc.metrics.show(proc.metrics.enforcer); err != nil {
		return policyClient{}, err
	}
	client, err := enforcer.NewClient(enforcer.ClientOptions{Config: config})
	if err != nil {
		return policyClient{}, err
	}
	log := proc.Log.WithName("enforcer")
	return policyClient{
		follower: enforcer.Follower{Source: client, Clock: clk, Random: mathrand.Float64, Quiet: quiet, Metrics: proc.metrics.enforcer, Log: log},
		reports: enforcer.NewReporter(enforcer.ReporterOptions{
			Client: client, Clock: clk, Random: mathrand.Float64, Metrics: proc.metrics.enforcer, Log: log,
		}),
	}, nil
}

// servePrivately adds an API server for the enforcers of this process alone to the manager. Its
// address on this machine is published nowhere, and its certificate lives as long as the process.
func servePrivately(ctx context.Context, mgr manager.Manager, policies *control.Controller, proc *process) error {
	access, err := apiserver.Closed()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "nephele-api-")
	if err != nil {
		return fmt.Errorf("make a directory for the certificate of the computed API: %w", err)
	}
	clk := clock.RealClock{}
	dir, err := certs.Open(scratch, clk.Now)
	if err != nil {
		return errors.Join(fmt.Errorf("certificates of the computed API: %w", err), os.RemoveAll(scratch))
	}
	cert, err := serving.Open(dir, []string{apiServerName}, nil, clk)
	if err != nil {
		return errors.Join(err, os.RemoveAll(scratch))
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return errors.Join(fmt.Errorf("serve the computed API: %w", err), os.RemoveAll(scratch))
	}
	server, err := apiserver.New(apiserver.Options{
		Listener: listener, Certificate: cert, Access: access.WithEnforcer(proc.loopback.token), Store: policies.Store(), Reports: policies,
		Metrics: proc.metrics.api, Logger: proc.Log.WithName("api"),
	})
	if err != nil {
		return errors.Join(err, listener.Close(), os.RemoveAll(scratch))
	}
	proc.loopback.server = server
	for _, r := range []manager.Runnable{server, remover(scratch)} {
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("serve the computed API: %w", err)
		}
	}
	return nil
}

// remover removes a directory in the end.
type remover string

// Start implements manager.Runnable.
func (d remover) Start(ctx context.Context) error {
	<-ctx.Done()
	if err := os.RemoveAll(string(d)); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: replicas that never lead clean up,
// too.
func (remover) NeedLeaderElection() bool { return false }

// withdrawOurs makes room for a foreign API server.
func withdrawOurs(ctx context.Context, cluster *rest.Config) error {
	c, err := registration.NewClient(cluster)
	if err != nil {
		return err
	}
	return registration.Withdraw(ctx, c)
}
