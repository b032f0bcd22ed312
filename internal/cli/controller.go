package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud/audit"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/control"
)

// settleTime is how long the realizer waits after a change for more changes: long enough to see what one "kubectl apply" of several
// objects brings as one plan, short enough not to be noticed.
const settleTime = 100 * time.Millisecond

// claimPause is longer than it takes another controller from having read that a VPC is free to having claimed it.
const claimPause = 2 * time.Second

// heartbeat is how long a lost wake-up of the realizer can go unnoticed. Looking at what is known costs no call to the cloud.
const heartbeat = 2 * time.Minute

// ControllerOptions say how the controller runs.
type ControllerOptions struct {
	Log logr.Logger
	// MetricsAddress serves Prometheus metrics; "0" or empty serves none.
	MetricsAddress string
	// HealthAddress serves /healthz and /readyz; empty serves none.
	HealthAddress string
	// LeaderElection lets one of several replicas work at a time; LeaderNamespace is where the lock is.
	LeaderElection  bool
	LeaderNamespace string
	// API serves the computed objects to enforcers; nil serves them to those of this process only.
	API *APIOptions
	// Ready, if not nil, is called once when the controller works: when its caches are filled, and with API, when kube-apiserver
	// has been told about the API and the webhooks.
	Ready func()
	// Antrea leads to an Antrea Controller that computes the policies instead of this one; nil computes them here. It is asked for
	// every connection. With it there is no API to serve.
	Antrea func() (*rest.Config, error)
	// Audit says where the record of changes in clouds goes.
	Audit AuditFlags
	// SecretNamespaces are those whose Secrets accounts may name; none means all.
	SecretNamespaces []string
	// NoClouds leaves the cloud accounts to another process.
	NoClouds bool
	// Access is what accounts may use of this process, and how much is taken from them.
	Access Access
	// Instance says how this process makes itself known to others with the same cluster id.
	Instance InstanceOptions

	loopback *loopback
	metrics  *controllerMetrics
	record   *audit.Record
}

// Scheme returns a scheme with every kind that the controller and the commands read or write.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme,
		antreav1alpha1.AddToScheme, antreav1alpha2.AddToScheme, antreav1beta1.AddToScheme,
		upstreamv1alpha1.Install, upstreamv1alpha2.Install} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return s, nil
}

// RunController runs the policy controller, the inventory and the realizer against an API server until ctx ends.
func RunController(ctx context.Context, cfg *rest.Config, o ControllerOptions) error {
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	// The library wants its logger set for the whole process, and complains on standard error if it is not.
	ctrl.SetLogger(o.Log)
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = 200, 400
	}
	o.loopback, o.metrics = newLoopback(), newControllerMetrics(metrics.Registry)
	exposed, err := metricsOptions(o.MetricsAddress, o.certificate())
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(cfg, manager.Options{
		Scheme: scheme, Logger: o.Log, Metrics: exposed,
		HealthProbeBindAddress: o.HealthAddress,
		LeaderElection:         o.LeaderElection, LeaderElectionID: "nephele-controller", LeaderElectionNamespace: o.LeaderNamespace,
		LeaderElectionReleaseOnCancel: true,
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Cache:                         cacheOptions(o),
	})
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if err := checkHealth(mgr); err != nil {
		return err
	}
	defer o.metrics.hideAll()
	if o.Antrea != nil {
		if err := withdrawOurs(ctx, cfg); err != nil {
			return err
		}
	}
	id, err := clusterID(ctx, mgr.GetAPIReader())
	if err != nil {
		return err
	}
	if o.record, err = openRecord(id, o); err != nil {
		return err
	}
	defer closeRecord(o.record)
	if err := assemble(ctx, mgr, id, o); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

// clusterID is the identity under which we own objects in the cloud: the uid of the namespace that every cluster has and none loses.
func clusterID(ctx context.Context, r client.Reader) (string, error) {
	var ns corev1.Namespace
	if err := r.Get(ctx, client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
		return "", fmt.Errorf("read namespace kube-system, whose uid identifies the cluster: %w", err)
	}
	return string(ns.UID), nil
}

// assemble joins the loops. This is the only place where they meet.
func assemble(ctx context.Context, mgr manager.Manager, id string, o ControllerOptions) error {
	if o.NoClouds {
		return computePolicies(ctx, mgr, o)
	}
	clk, log := clock.RealClock{}, o.Log
	policies, err := newEnforcer(o, clk)
	if err != nil {
		return err
	}
	accountsOfAWS, err := newAWSAccounts(ctx, id, o.Access)
	if err != nil {
		return err
	}
	o.Access.tell(log)
	// The inventory asks the realizer whether an account is given back, and the realizer asks the inventory what there is.
	released := &lateReleaser{}
	authors := &authorsCheck{reader: mgr.GetAPIReader(), log: log.WithName("grants"), clock: clk}
	authors.look(ctx)
	inv := inventory.New(inventory.Options{
		Client: mgr.GetClient(), Secrets: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("nephele-inventory"),
		Clouds: map[cloudv1.CloudProvider]inventory.Open{
			cloudv1.CloudProviderAWS: accountsOfAWS.paced(o.metrics.aws.ended).recorded(o.record).open,
		},
		ExternalID: accountsOfAWS.externalID, SecretNamespaces: o.SecretNamespaces, AuthorsUnchecked: authors.Unchecked,
		Releaser: released, Now: clk.Now, Random: rand.Float64,
	})
	authors.changed = inv.Revisit
	if err := o.metrics.show(o.metrics.realize, o.metrics.aws, o.metrics.audit); err != nil {
		return err
	}
	status := realize.NewStatusWriter(mgr.GetClient(), policies.reports, mgr.GetEventRecorder("nephele-realize"), clk, log.WithName("status"))
	status.ChangedBy = inv.ChangedBy
	instance, err := o.Instance.instance(mgr)
	if err != nil {
		return err
	}
	realizer, err := realize.New(realize.Options{
		ClusterID: id, Follower: policies.follower, Accounts: accounts{inv}, Lowerer: lower.AWS{}, Sink: status,
		Clock: clk, Log: log.WithName("realize"), Settle: settleTime, ClaimPause: claimPause, Metrics: o.metrics.realize,
		Tighten: tightens(ctx, mgr.GetClient()), Heartbeat: heartbeat, Instance: instance,
		Records: recordKey(mgr.GetClient(), id, clk, o),
	})
	if err != nil {
		return err
	}
	released.Realizer = realizer
	if err := followTightening(ctx, mgr.GetCache(), realizer.Reconsider); err != nil {
		return err
	}
	if err := followVMs(ctx, mgr.GetCache(), status.VMChanged); err != nil {
		return err
	}
	if err := inv.SetupWithManager(ctx, mgr); err != nil {
		return err
	}
	for _, r := range []manager.Runnable{policies.reports, status, realizer, authors} {
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("start the controller: %w", err)
		}
	}
	if o.Antrea != nil {
		return tellReady(mgr, o)
	}
	return computePolicies(ctx, mgr, o)
}

// computePolicies adds the policy controller and the server of what it computes to the manager.
func computePolicies(ctx context.Context, mgr manager.Manager, o ControllerOptions) error {
	kinds, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	clk := clock.RealClock{}
	// A client may come back with a position of the former process; it must not be taken for one of ours.
	store := watchstore.New(watchstore.Options{FirstRevision: uint64(clk.Now().UnixMicro())})
	o.metrics.api = apiserver.NewMetrics(store)
	if err := o.metrics.show(o.metrics.policy, o.metrics.api); err != nil {
		return err
	}
	policies, err := control.New(control.Options{
		Informers: mgr.GetCache(), Client: mgr.GetClient(), Discovery: kinds, Recorder: mgr.GetEventRecorder("nephele-policy"), Clock: clk, Logger: o.Log.WithName("policy"),
		Store: store, Metrics: o.metrics.policy,
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(policies); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if o.API == nil {
		if err := servePrivately(ctx, mgr, policies, o); err != nil {
			return err
		}
		return tellReady(mgr, o)
	}
	return serveAPI(ctx, mgr, policies, o)
}

// tellReady makes the manager call Ready when the caches are filled.
func tellReady(mgr manager.Manager, o ControllerOptions) error {
	return mgr.Add(manager.RunnableFunc(func(context.Context) error {
		if o.Ready != nil {
			o.Ready()
		}
		return nil
	}))
}

// lateReleaser breaks the circle between inventory and realizer; Realizer is set before anything runs.
type lateReleaser struct{ *realize.Realizer }

// cutAccount splits "namespace/name".
func cutAccount(key string) (namespace, name string, ok bool) { return strings.Cut(key, "/") }

// NewControllerCommand returns the command nephele controller.
func NewControllerCommand() *cobra.Command {
	var cluster clusterFlags
	var o ControllerOptions
	var verbose bool
	var api APIOptions
	var antrea AntreaFlags
	var access AccessFlags
	serving := servingFlags{api: &api}
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller against a Kubernetes API",
		Long: `Run the controller: it computes the policies of the cluster, imports the VMs of the cloud accounts, and enforces the policies
on them through the clouds' security groups.

One controller works on a cluster at a time: "nephele up" has one already, and replicas need --leader-elect.

The CustomResourceDefinitions must be installed (kubectl apply -f api/generated/crd), and so should be the policies that check the
rights of those who write accounts, selectors and policies (kubectl apply -k config/grants). Inside a cluster the Pod's own ServiceAccount is
used; else --kubeconfig, the variable KUBECONFIG or ~/.kube/config.`,
		Example: `  nephele controller --kubeconfig ~/.kube/config
  nephele controller --leader-elect --leader-namespace nephele-system --metrics 0.0.0.0:8080 --health 0.0.0.0:8081`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := cluster.config()
			if err != nil {
				return fmt.Errorf("find the Kubernetes API: %w", err)
			}
			o.Log = NewLogger(cmd.ErrOrStderr(), verbose)
			if o.Access, err = access.Access(); err != nil {
				return err
			}
			if o.Antrea, err = antrea.Config(cfg); err != nil {
				return err
			}
			if err := serving.apply(&o); err != nil {
				return err
			}
			switch {
			case o.Antrea != nil && api.Address != "":
				return errors.New("--api serves what is computed here; with --antrea or --antrea-kubeconfig nothing is")
			case o.Antrea != nil && o.NoClouds:
				return errors.New("--no-clouds leaves nothing to do with --antrea or --antrea-kubeconfig")
			case o.NoClouds && api.Address == "":
				return errors.New("--no-clouds needs --api: without either nobody is served")
			case api.Address != "" && (api.CertDir == "") == (api.TLSDir == ""):
				return errors.New("--api needs either --api-cert-dir, a directory that keeps the certificate over restarts, or --api-tls-dir")
			case api.Address != "":
				o.API = &api
			}
			return RunController(cmd.Context(), cfg, o)
		},
	}
	f := cmd.Flags()
	cluster.register(f)
	f.StringVar(&o.MetricsAddress, "metrics", "127.0.0.1:8080", "HOST:PORT for Prometheus metrics, over TLS and for those who may get /metrics unless it is a loopback address; 0 for none")
	f.StringVar(&o.HealthAddress, "health", "", "HOST:PORT for /healthz and /readyz, which anybody may ask; empty for none")
	f.BoolVar(&o.LeaderElection, "leader-elect", false, "work only while holding the lock that several replicas compete for")
	f.StringVar(&o.LeaderNamespace, "leader-namespace", "", "namespace of the lock; empty means the Pod's own")
	f.StringVar(&api.Address, "api", "", "HOST:PORT to serve the computed policies on, to agents, and the admission webhooks; empty for none. Service "+apiNamespace+"/"+apiService+" must lead there")
	f.StringVar(&api.CertDir, "api-cert-dir", "", "directory that keeps the certificate of --api; created if missing")
	f.BoolVar(&api.WithoutWebhooks, "without-webhooks", false, "do not register the admission webhooks that --api serves, and remove those registered before")
	f.StringVar(&api.TLSDir, "api-tls-dir", "", "directory with tls.crt, tls.key and ca.crt for --api, which somebody else (cert-manager) keeps current")
	api.RegisterEnforcers(f)
	serving.register(f)
	antrea.Register(f)
	o.Audit.Register(f)
	access.Register(f)
	o.Instance.Register(f)
	f.BoolVar(&o.NoClouds, "no-clouds", false, "only compute and serve policies; leave the cloud accounts to another process with --antrea")
	f.BoolVarP(&verbose, "verbose", "v", false, "log every round of computation")
	return cmd
}
