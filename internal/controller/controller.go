package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/cloud/noderoutes"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/controller/agents"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/controller/traffic"
	"github.com/nephele-io/nephele/internal/history"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/platform/tracing/collector"
	"github.com/nephele-io/nephele/internal/traceflow"
)

// settleTime is how long the realizer waits after a change for more changes: long enough to see
// what one "kubectl apply" of several objects brings as one plan, short enough not to be noticed.
const settleTime = 100 * time.Millisecond

// heartbeat is how long a lost wake-up of the realizer can go unnoticed. Looking at what is known
// costs no call to the cloud.
const heartbeat = 2 * time.Minute

// Options say how the controller runs. They are configuration alone: what comes to be while it runs
// is in process.
type Options struct {
	Log logr.Logger
	// MetricsAddress serves Prometheus metrics; "0" or empty serves none.
	MetricsAddress string
	// HealthAddress serves /healthz and /readyz; empty serves none.
	HealthAddress string
	// Lease lets one process of the cluster work at a time.
	Lease LeaseOptions
	// API serves the computed objects to enforcers; with nil, only the enforcers of this process
	// get them.
	API *APIOptions
	// Ready, if not nil, is called once when the controller works: when its caches are filled,
	// and with API, when kube-apiserver has been told about the API and the webhooks.
	Ready func()
	// Antrea leads to an Antrea Controller that computes the policies instead of this one; nil
	// computes them here. It is asked for every connection. With it there is no API to serve.
	Antrea func() (*rest.Config, error)
	// AntreaMember lets the cluster be a member of a set while an Antrea Controller computes. No
	// other process may do that for the cluster.
	AntreaMember bool
	// AuditLog is the file for the record of changes in clouds; empty for the log alone.
	AuditLog string
	// LogDir is where the log files of this process are, for support bundles; empty if there
	// are none.
	LogDir string
	// Version is the version of this build, as the API reports it.
	Version string
	// LogLevel is the verbosity of Log; nil if callers may not change it. Process names the process
	// where it runs in no Pod.
	LogLevel apiserver.LogLevel
	Process  string
	// SecretNamespaces are those whose Secrets accounts may name; none means all.
	SecretNamespaces []string
	// NoClouds leaves the cloud accounts to another process.
	NoClouds bool
	Flows    traffic.Options
	// Access is what accounts may use of this process, and how much is taken from them.
	Access clouds.Access
	// History bounds the history of policies that is kept.
	History history.Bounds
	// Sharing says whether the accounts are shared out between replicas.
	Sharing SharingOptions
	// Propagation is how long clouds take to put into force what their API has accepted, for
	// accounts that do not say; 0 means that no call waits for that.
	Propagation time.Duration
	// Instance says how this process makes itself known to others with the same cluster id.
	Instance InstanceOptions
}

// Run runs the policy controller, the inventory and the realizer against an API server until ctx
// ends.
func Run(ctx context.Context, cfg *rest.Config, o Options) error {
	scheme, err := kinds.Scheme()
	if err != nil {
		return err
	}
	// The library wants its logger set for the whole process, and complains on standard error
	// if it is not.
	ctrl.SetLogger(o.Log)
	recovered.Everywhere()
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = 200, 400
	}
	if err := o.checkSharing(); err != nil {
		return err
	}
	proc := newProcess(o)
	exposed, err := metricsOptions(o.MetricsAddress, proc.certificate())
	if err != nil {
		return err
	}
	lease, err := proc.lease(cfg)
	if err != nil {
		return err
	}
	options := manager.Options{
		Scheme: scheme, Logger: o.Log, Metrics: exposed,
		HealthProbeBindAddress: o.HealthAddress,
		Client:                 client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Cache:                  cacheOptions(o),
		// The names serve metrics, of which a process has one set. It may run one
		// controller after the other.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
	lease.compete(&options)
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if err := errors.Join(lease.tell(mgr), checkHealth(mgr, proc), showLeader(mgr, o)); err != nil {
		return err
	}
	defer proc.metrics.hideAll()
	if o.Antrea != nil {
		if err := withdrawOurs(ctx, cfg); err != nil {
			return err
		}
	}
	id, err := clouds.ClusterID(ctx, mgr.GetAPIReader())
	if err != nil {
		return err
	}
	if proc.record, err = openRecord(id, proc); err != nil {
		return err
	}
	defer closeRecord(proc.record)
	if proc.tracer, err = collector.FromEnvironment(ctx, os.Getenv, o.Version, o.Log.WithName("traces")); err != nil {
		return err
	}
	defer func() {
		if err := proc.tracer.Close(ctx); err != nil {
			o.Log.Info("The last traces were not delivered", "error", err.Error())
		}
	}()
	proc.past = newPast(mgr, o)
	state := newStateMetrics(clock.RealClock{})
	if err := errors.Join(state.follow(ctx, mgr.GetCache(), !o.NoClouds), proc.metrics.show(state)); err != nil {
		return err
	}
	parts, err := newShares(ctx, cfg, mgr, lease, proc)
	if err != nil {
		return err
	}
	if err := assemble(ctx, mgr, id, parts, proc); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

// DefaultPropagation is the Propagation of a controller that serves clouds. No cloud names a bound:
// AWS speaks of "a small delay" (API reference of AuthorizeSecurityGroupIngress), Azure of nothing,
// and what people report of both is seconds.
const DefaultPropagation = 3 * time.Second

// assemble joins the loops. This is the only place where they meet.
func assemble(ctx context.Context, mgr manager.Manager, id string, parts *shares, proc *process) error {
	if proc.NoClouds {
		return computePolicies(ctx, mgr, proc, nil)
	}
	clk, log := clock.RealClock{}, proc.Log
	policies, err := newEnforcer(proc, mgr, parts, clk)
	if err != nil {
		return err
	}
	if proc.Antrea == nil {
		err = forgetPolicyServer(mgr)
	} else {
		err = watchPolicyServer(mgr, proc.Options, &policies)
	}
	if err != nil {
		return err
	}
	opened, err := clouds.Open(ctx, proc.metrics.clouds, clouds.Parts{
		Cluster: id, Access: proc.Access, Audit: proc.past.audit(proc.record, mgr.Elected()), Paced: true, Gate: parts.gate(), Agent: proc.agent(), Tracer: proc.tracer,
	})
	if err != nil {
		return err
	}
	proc.Access.Tell(log)
	// The inventory asks the realizer whether an account is given back, and the realizer asks
	// the inventory what there is.
	released := &lateReleaser{}
	authors := &authorsCheck{reader: mgr.GetAPIReader(), log: log.WithName("grants"), clock: clk}
	authors.look(ctx)
	vms := agents.NewInVMs(mgr.GetClient(), clk)
	vms.Divided = parts != nil
	inv := inventory.New(inventory.Options{
		Client: mgr.GetClient(), Secrets: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("nephele-inventory"),
		Clouds:     opened,
		ExternalID: clouds.ExternalIDs(proc.metrics.clouds, id), SecretNamespaces: proc.SecretNamespaces, AuthorsUnchecked: authors.Unchecked,
		Mine: parts.mine(), Releaser: released, LetsIn: vms.LetsIn, Propagation: proc.Propagation, Now: clk.Now, Random: rand.Float64,
		Underway: released.underway,
	})
	authors.changed, proc.clouds = inv.Revisit, inv
	if err := proc.metrics.show(proc.metrics.realize, proc.metrics.audit); err != nil {
		return err
	}
	for _, c := range proc.metrics.clouds {
		if c.Metrics == nil {
			continue
		}
		if err := proc.metrics.show(c.Metrics); err != nil {
			return err
		}
	}
	statuses := status.NewWriter(mgr.GetClient(), policies.reports, mgr.GetEventRecorder("nephele-realize"), clk, log.WithName("status"))
	statuses.ChangedBy, statuses.Mine = inv.ChangedBy, parts.mine()
	instance, claimPause, err := proc.Instance.instance(mgr, proc.epoch)
	if err != nil {
		return err
	}
	key := recordKey(mgr.GetClient(), id, clk, proc.Options)
	if parts != nil {
		instance.Shares = accountShares{parts}
		divided := manager.RunnableFunc(func(ctx context.Context) error { return parts.follow(ctx, inv, key, proc.Options) })
		if err := errors.Join(mgr.Add(everywhere{divided}), mgr.Add(everywhere{parts})); err != nil {
			return fmt.Errorf("share accounts: %w", err)
		}
	}
	yields := &yields{Reader: mgr.GetClient()}
	// Every account brings the lowerer of its cloud; the first one is for those that name none
	// yet.
	realizer, err := realize.New(realize.Options{
		ClusterID: id, Follower: policies.follower,
		Accounts: Accounts{Inventory: inv, Others: parts.others(mgr.GetCache()), Yields: yields}, Lowerer: proc.metrics.clouds[0].Lowerer, Sink: statuses,
		Clock: clk, Log: log.WithName("realize"), Settle: settleTime, ClaimPause: claimPause, Metrics: proc.metrics.realize,
		Heartbeat: heartbeat, Instance: instance,
		Records: key, Agents: vms, Tracer: proc.tracer,
	})
	if err != nil {
		return err
	}
	released.Realizer, vms.Changed = realizer, realizer.Reconsider
	if err := vms.Follow(ctx, mgr.GetCache()); err != nil {
		return err
	}
	if err := yields.follow(ctx, mgr.GetCache(), realizer.Reconsider); err != nil {
		return err
	}
	if err := followSubjects(ctx, mgr.GetCache(), statuses.Changed); err != nil {
		return err
	}
	if err := inv.SetupWithManager(ctx, mgr); err != nil {
		return err
	}
	routes := noderoutes.New(noderoutes.Options{Client: mgr.GetClient(), Cluster: id, Provider: inv.Provider, Events: mgr.GetEventRecorder("nephele-node-routes"), Clock: clk, Log: log.WithName("node-routes")})
	if err := routes.Follow(ctx, mgr.GetCache()); err != nil {
		return err
	}
	for _, r := range []manager.Runnable{policies.reports, statuses, realizer, authors, vms, routes} {
		if err := mgr.Add(parts.place(r)); err != nil {
			return fmt.Errorf("start the controller: %w", err)
		}
	}
	if proc.Antrea != nil {
		watch := agents.NewWatch(mgr.GetClient(), clk, log.WithName("agents"), true, nil)
		if err := errors.Join(watch.Follow(ctx, mgr.GetCache()), mgr.Add(watch)); err != nil {
			return fmt.Errorf("start the controller: %w", err)
		}
		if proc.AntreaMember {
			others, err := newSet(ctx, mgr, clk, nil, proc)
			if err != nil {
				return err
			}
			if err := errors.Join(proc.metrics.show(newSetMetrics(others)), others.start(mgr)); err != nil {
				return fmt.Errorf("start the controller: %w", err)
			}
		}
		return tellReady(mgr, proc.Options)
	}
	return computePolicies(ctx, mgr, proc, vms)
}

// computePolicies adds the policy controller and the server of what it computes to the manager.
// vms, if any, take from it what agents report.
func computePolicies(ctx context.Context, mgr manager.Manager, proc *process, vms *agents.InVMs) error {
	kinds, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	clk := clock.RealClock{}
	// A client may come back with a position of the former process; it must not be taken for
	// one of ours.
	store := watchstore.New(watchstore.Options{FirstRevision: uint64(clk.Now().UnixMicro())})
	proc.metrics.api = apiserver.NewMetrics(store)
	if err := proc.metrics.show(proc.metrics.policy, proc.metrics.api); err != nil {
		return err
	}
	var late latePolicies
	others, err := newSet(ctx, mgr, clk, &late, proc)
	if err != nil {
		return err
	}
	policies, err := control.New(control.Options{
		Informers: mgr.GetCache(), Client: mgr.GetClient(), Discovery: kinds, Recorder: mgr.GetEventRecorder("nephele-policy"), Clock: clk, Logger: proc.Log.WithName("policy"),
		Store: store, Metrics: proc.metrics.policy, History: proc.past.observer(), Tracer: proc.tracer, Remote: others.member.Known(),
	})
	if err != nil {
		return err
	}
	late.Controller, proc.set = policies, others
	proc.loops.add(policies.Faulty)
	watch := agents.NewWatch(mgr.GetClient(), clk, proc.Log.WithName("agents"), !proc.NoClouds, policies.Silent)
	if err := errors.Join(watch.Follow(ctx, mgr.GetCache()), proc.metrics.show(watch, newSetMetrics(others)), mgr.Add(watch)); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if vms != nil && !vms.Divided {
		vms.StatusOf = policies.Reported
	}
	traces := &traceflow.Controller{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Informers: mgr.GetCache(), Clock: clk, Log: proc.Log.WithName("traceflow")}
	warm := everywhere{manager.RunnableFunc(policies.Warm)}
	if err := errors.Join(proc.past.start(mgr, proc), mgr.Add(warm), mgr.Add(policies), mgr.Add(traces), others.start(mgr)); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if proc.API == nil {
		if err := servePrivately(ctx, mgr, policies, proc); err != nil {
			return err
		}
		return tellReady(mgr, proc.Options)
	}
	return serveAPI(ctx, mgr, policies, vms, proc)
}

// tellReady makes the manager call Ready when the caches are filled.
func tellReady(mgr manager.Manager, o Options) error {
	return mgr.Add(manager.RunnableFunc(func(context.Context) error {
		if o.Ready != nil {
			o.Ready()
		}
		return nil
	}))
}

// lateReleaser breaks the circle between inventory and realizer; Realizer is set before anything
// runs.
type lateReleaser struct{ *realize.Realizer }

// underway reports whether a plan of the account is being carried out.
func (l *lateReleaser) underway(account string) bool {
	report, known := l.Report(account)
	return known && report.Underway
}
