package cli

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

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

// antreaQuiet is how long an Antrea Controller must have sent nothing before what it began with is taken for everything: unlike ours, it
// serves while it computes for the first time.
const antreaQuiet = 2 * time.Second

// loopback is how the enforcers of this process reach its own server, which is set before anything runs.
type loopback struct {
	token  string
	server *apiserver.Server
	// certificate is what it serves with if others reach it, too.
	certificate atomic.Pointer[apiserver.Certificate]
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

// newEnforcer returns the end of the computed API that enforcers of this process use: of the server of this process, or of a foreign one.
func newEnforcer(o ControllerOptions, clk clock.WithTicker) (policyClient, error) {
	config, quiet := o.loopback.config, time.Duration(0)
	if o.Antrea != nil {
		config, quiet = o.Antrea, antreaQuiet
	}
	if err := o.metrics.show(o.metrics.enforcer); err != nil {
		return policyClient{}, err
	}
	client, err := enforcer.NewClient(enforcer.ClientOptions{Config: config})
	if err != nil {
		return policyClient{}, err
	}
	log := o.Log.WithName("enforcer")
	return policyClient{
		follower: enforcer.Follower{Source: client, Clock: clk, Random: mathrand.Float64, Quiet: quiet, Metrics: o.metrics.enforcer, Log: log},
		reports: enforcer.NewReporter(enforcer.ReporterOptions{
			Client: client, Clock: clk, Random: mathrand.Float64, Metrics: o.metrics.enforcer, Log: log,
		}),
	}, nil
}

// servePrivately adds an API server to the manager that only the enforcers of this process use, on an address of this machine that
// nobody else knows, with a certificate that lives as long as the process.
func servePrivately(ctx context.Context, mgr manager.Manager, policies *control.Controller, o ControllerOptions) error {
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
	cert, err := apiserver.OpenCertificate(dir, []string{apiServerName}, nil, clk)
	if err != nil {
		return errors.Join(err, os.RemoveAll(scratch))
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return errors.Join(fmt.Errorf("serve the computed API: %w", err), os.RemoveAll(scratch))
	}
	server, err := apiserver.New(apiserver.Options{
		Listener: listener, Certificate: cert, Access: access.WithEnforcer(o.loopback.token), Store: policies.Store(), Reports: policies,
		Metrics: o.metrics.api, Logger: o.Log.WithName("api"),
	})
	if err != nil {
		return errors.Join(err, listener.Close(), os.RemoveAll(scratch))
	}
	o.loopback.server = server
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

// NeedLeaderElection implements manager.LeaderElectionRunnable: those who never lead clean up, too.
func (remover) NeedLeaderElection() bool { return false }

// AntreaFlags say whether an Antrea Controller computes the policies, and where it is.
type AntreaFlags struct {
	kubeconfig string
	aggregated bool
}

// Register adds the flags to a command.
func (f *AntreaFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "antrea-kubeconfig", "", "take the computed policies from the Antrea Controller that this kubeconfig file leads to, instead of computing them here")
	flags.BoolVar(&f.aggregated, "antrea", false, "the same through the cluster's own API server, where an Antrea Controller has registered its API")
}

// Config returns ControllerOptions.Antrea for the cluster that the controller works on; nil if the policies are computed here.
func (f *AntreaFlags) Config(cluster *rest.Config) (func() (*rest.Config, error), error) {
	switch {
	case f.kubeconfig != "" && f.aggregated:
		return nil, errors.New("--antrea and --antrea-kubeconfig say different things: give one of them")
	case f.aggregated:
		return func() (*rest.Config, error) { return cluster, nil }, nil
	case f.kubeconfig != "":
		return func() (*rest.Config, error) {
			cfg, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
			if err != nil {
				return nil, fmt.Errorf("--antrea-kubeconfig %s: %w", f.kubeconfig, err)
			}
			return cfg, nil
		}, nil
	}
	return nil, nil
}

// withdrawOurs makes room for a foreign API server.
func withdrawOurs(ctx context.Context, cluster *rest.Config) error {
	c, err := apiserver.RegistrationClient(cluster)
	if err != nil {
		return err
	}
	return apiserver.Withdraw(ctx, c)
}
